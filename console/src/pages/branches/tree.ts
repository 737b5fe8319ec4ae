import type { Branch } from '../../api.ts'

export interface BranchInTree {
  readonly branch: Branch
  readonly depth: number
}

const { compare } = new Intl.Collator('en', { numeric: true })

/** Branches with each child below its parent, siblings by name. */
export function inTree(branches: readonly Branch[]): BranchInTree[] {
  const known = new Set(branches.map(({ id }) => id))
  const children = Map.groupBy(branches, ({ parent_id: id }) => (id !== undefined && known.has(id) ? id : undefined))
  const below = (parent: string | undefined, depth: number) =>
    (children.get(parent) ?? [])
      .toSorted((one, other) => compare(other.name, one.name))
      .map((branch) => ({ branch, depth }))
  const tree: BranchInTree[] = []
  const open = below(undefined, 0)
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    tree.push(next)
    open.push(...below(next.branch.id, next.depth + 1))
  }
  return tree
}

/** Why a branch cannot be deleted; undefined where it can. */
export function whyKept({ default: isDefault, protected: isProtected }: Branch): string | undefined {
  if (isDefault) return 'The default branch cannot be deleted.'
  return isProtected ? 'A protected branch cannot be deleted: take its protection away first.' : undefined
}
