import { useMemo, useState } from 'react'
import { useSearchParams } from 'wouter'
import { Empty, Failure, Loading } from '../../parts/states.tsx'
import { useDebounced } from '../../parts/debounced.ts'
import { useBranchList } from './branch_list.ts'
import { BranchTable } from './branch_table.tsx'
import { DeleteSelected } from './delete_selected.tsx'
import { DeletedBranches } from './deleted_branches.tsx'
import { NewBranch } from './new_branch.tsx'
import { inTree } from './tree.ts'

/** The branches of a project as a tree, with their endpoints. */
export function Branches({ projectId }: { readonly projectId: string }) {
  const [address, setAddress] = useSearchParams()
  const search = address.get('search') ?? ''
  const setSearch = (text: string) => setAddress(text === '' ? {} : { search: text }, { replace: true })
  const { branches, count, list } = useBranchList(projectId, useDebounced(search))
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const rows = useMemo(() => inTree(branches), [branches])
  const selected = useMemo(() => rows.filter(({ branch }) => chosen.has(branch.id)), [rows, chosen])
  const select = (id: string, isSelected: boolean) =>
    setChosen((before) => {
      const after = new Set(before)
      if (isSelected) after.add(id)
      else after.delete(id)
      return after
    })
  const isSearch = search !== ''
  return (
    <>
      <div className="heading">
        <h2>
          {count === 1 ? '1 branch' : `${count.toLocaleString('en')} branches`}
          {list.hasNextPage && <small role="status"> {branches.length.toLocaleString('en')} read …</small>}
        </h2>
        <input
          type="search"
          aria-label="Search branches"
          placeholder="Search"
          value={search}
          onChange={({ target }) => setSearch(target.value)}
        />
        <span>
          <DeleteSelected projectId={projectId} selected={selected} done={() => setChosen(new Set())} />{' '}
          <NewBranch projectId={projectId} />
        </span>
      </div>
      {list.isPending && <Loading what="Reading the branches" />}
      {list.error && <Failure error={list.error} retry={() => void list.refetch()} />}
      {list.data && rows.length === 0 && isSearch && (
        <Empty title="No branch matches">
          <p>Search for another part of a name or an id.</p>
        </Empty>
      )}
      {rows.length > 0 && <BranchTable projectId={projectId} rows={rows} selected={chosen} select={select} />}
      {!isSearch && <DeletedBranches projectId={projectId} />}
    </>
  )
}
