import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link } from 'wouter'
import { type Branch, call, type Endpoint } from '../api.ts'
import { keysOf } from '../live.ts'
import { bytes } from '../parts/amounts.ts'
import { Copied } from '../parts/copied.tsx'
import { Failure, Loading } from '../parts/states.tsx'
import { type Column, Table } from '../parts/table.tsx'
import { Moment } from '../parts/time.tsx'
import { ConnectBranch } from './connect.tsx'
import { DeleteBranch, NewBranch } from './branch_forms.tsx'
import { EndpointState } from './endpoint_state.tsx'

const MAX_DEPTH = 5

/** The branches of a project as a tree, with their endpoints. */
export function Branches({ projectId }: { readonly projectId: string }) {
  const queries = useQueryClient()
  const { state } = keysOf(projectId)
  const params = { project_id: projectId }
  const branches = useQuery({
    queryKey: [...state, 'branches'],
    queryFn: async () =>
      (await call('GET /projects/:project_id/branches', { params, query: { limit: 10_000 } })).branches,
  })
  const endpoints = useQuery({
    queryKey: [...state, 'endpoints'],
    queryFn: async () => (await call('GET /projects/:project_id/endpoints', { params })).endpoints,
  })
  if (branches.isPending || endpoints.isPending) return <Loading what="Reading the branches" />
  const error = branches.error ?? endpoints.error
  if (error && !branches.data) return <Failure error={error} retry={() => void branches.refetch()} />
  const ofBranch = new Map(endpoints.data?.map((endpoint) => [endpoint.branch_id, endpoint]))
  const all = branches.data ?? []
  const refresh = () => void queries.invalidateQueries({ queryKey: state })
  const rows = inTree(all).map((each) => ({ ...each, endpoint: ofBranch.get(each.branch.id), refresh }))
  return (
    <>
      <div className="heading">
        <h2>{all.length === 1 ? '1 branch' : `${all.length} branches`}</h2>
        <NewBranch projectId={projectId} branches={all} />
      </div>
      <Table label="Branches" columns={COLUMNS} rows={rows} keyOf={({ branch }) => branch.id} />
    </>
  )
}

interface BranchInTree {
  readonly branch: Branch
  readonly depth: number
}

interface BranchRow extends BranchInTree {
  readonly endpoint: Endpoint | undefined
  readonly refresh: () => void
}

const COLUMNS: readonly Column<BranchRow>[] = [
  { title: 'Branch', of: BranchName },
  {
    title: 'Compute',
    of: ({ endpoint, refresh }) =>
      endpoint ? <EndpointState endpoint={endpoint} onChange={refresh} /> : <small>none</small>,
  },
  { title: 'Size', of: ({ branch }) => (branch.logical_size === undefined ? '' : bytes(branch.logical_size)) },
  { title: 'Created', of: ({ branch }) => <Moment at={branch.created_at} /> },
  {
    title: 'Actions',
    isActions: true,
    of: ({ branch, endpoint, refresh }) => (
      <>
        <ConnectBranch branch={branch} endpoint={endpoint} />
        <DeleteBranch branch={branch} onChange={refresh} />
      </>
    ),
  },
]

function BranchName({ branch, depth }: BranchInTree) {
  return (
    <span className="branch" data-depth={Math.min(depth, MAX_DEPTH)}>
      <Link href={`/projects/${branch.project_id}/branches/${branch.id}`}>{branch.name}</Link>
      {branch.default && <span className="mark">default</span>}
      {branch.protected && <span className="mark">protected</span>}
      {branch.current_state === 'init' && <span className="mark running">being made</span>}
      <Copied text={branch.id} what="the branch's id" />
      {branch.expires_at && (
        <small>
          expires <Moment at={branch.expires_at} />
        </small>
      )}
    </span>
  )
}

/** Branches with each child below its parent, siblings by name. */
function inTree(branches: readonly Branch[]): BranchInTree[] {
  const known = new Set(branches.map(({ id }) => id))
  const children = Map.groupBy(branches, ({ parent_id }) => (parent_id && known.has(parent_id) ? parent_id : undefined))
  const below = (parent: string | undefined, depth: number): BranchInTree[] =>
    (children.get(parent) ?? [])
      .toSorted((one, other) => one.name.localeCompare(other.name))
      .flatMap((branch) => [{ branch, depth }, ...below(branch.id, depth + 1)])
  return below(undefined, 0)
}
