import { useQuery, useQueryClient } from '@tanstack/react-query'
import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { useLayoutEffect, useRef, useState } from 'react'
import { Link } from 'wouter'
import { type Branch, call, type Endpoint } from '../../api.ts'
import { keysOf } from '../../live.ts'
import { bytes } from '../../parts/amounts.ts'
import { Copied } from '../../parts/copied.tsx'
import { Moment } from '../../parts/time.tsx'
import { ConnectBranch } from '../connect.tsx'
import { EndpointState } from '../endpoint_state.tsx'
import { DeleteBranch } from './delete_branch.tsx'
import { type BranchInTree, whyKept } from './tree.ts'

const MAX_DEPTH = 5
const ROW_PIXELS = 72
/** Endpoints are read by blocks of rows, so that scrolling asks seldom. */
const BLOCK = 50

interface BranchTableProps {
  readonly projectId: string
  readonly rows: readonly BranchInTree[]
  readonly selected: ReadonlySet<string>
  readonly select: (id: string, isSelected: boolean) => void
}

/** The rows of a tree of branches that are in view, with their endpoints. */
export function BranchTable({ projectId, rows, selected, select }: BranchTableProps) {
  const body = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => setTop(body.current?.offsetTop ?? 0), [])
  const virtual = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PIXELS,
    overscan: 6,
    scrollMargin: top,
    getItemKey: (index) => rows[index]?.branch.id ?? index,
  })
  const shown = virtual.getVirtualItems()
  const endpoints = useEndpointsInView(projectId, rows, shown[0]?.index ?? 0, shown.at(-1)?.index ?? 0)
  return (
    <div className="branches" role="table" aria-label="Branches" aria-rowcount={rows.length + 1}>
      <div role="rowgroup" className="branches-head">
        <div role="row" aria-rowindex={1}>
          {['Select', 'Branch', 'Compute', 'Size', 'Written this month', 'Created', 'Actions'].map((title) => (
            <div key={title} role="columnheader">
              <span className={title === 'Select' || title === 'Actions' ? 'hidden' : undefined}>{title}</span>
            </div>
          ))}
        </div>
      </div>
      <div role="rowgroup" className="branches-body" ref={body} style={{ height: virtual.getTotalSize() }}>
        {shown.map(({ key, index, start }) => {
          const row = rows[index]
          return (
            row && (
              <div
                key={key}
                role="row"
                aria-rowindex={index + 2}
                data-index={index}
                ref={virtual.measureElement}
                style={{ transform: `translateY(${start - top}px)` }}
              >
                <Row
                  {...row}
                  endpoint={endpoints.get(row.branch.id)}
                  isSelected={selected.has(row.branch.id)}
                  select={select}
                />
              </div>
            )
          )
        })}
      </div>
    </div>
  )
}

function useEndpointsInView(projectId: string, rows: readonly BranchInTree[], first: number, last: number) {
  const [from, to] = [Math.floor(first / BLOCK) * BLOCK, Math.ceil((last + 1) / BLOCK) * BLOCK]
  const ids = rows.slice(from, Math.min(to, from + 4 * BLOCK)).map(({ branch }) => branch.id)
  const endpoints = useQuery({
    queryKey: [...keysOf(projectId).state, 'endpoints of', ids],
    enabled: ids.length > 0,
    placeholderData: (before) => before,
    queryFn: async () => {
      const params = { project_id: projectId }
      return (await call('GET /projects/:project_id/endpoints', { params, query: { branch_ids: ids } })).endpoints
    },
  })
  return new Map(endpoints.data?.map((endpoint) => [endpoint.branch_id, endpoint]))
}

interface RowProps extends BranchInTree {
  readonly endpoint: Endpoint | undefined
  readonly isSelected: boolean
  readonly select: (id: string, isSelected: boolean) => void
}

function Row({ branch, depth, endpoint, isSelected, select }: RowProps) {
  const queries = useQueryClient()
  const refresh = () => void queries.invalidateQueries({ queryKey: keysOf(branch.project_id).state })
  const kept = whyKept(branch)
  return (
    <>
      <div role="cell">
        <input
          type="checkbox"
          aria-label={`Select ${branch.name}`}
          title={kept}
          disabled={kept !== undefined}
          checked={isSelected}
          onChange={({ target }) => select(branch.id, target.checked)}
        />
      </div>
      <div role="cell">
        <BranchName branch={branch} depth={depth} />
      </div>
      <div role="cell" data-title="Compute">
        {endpoint ? <EndpointState endpoint={endpoint} onChange={refresh} /> : <small>none</small>}
      </div>
      <div role="cell" data-title="Size">
        {branch.logical_size === undefined ? <small>unknown</small> : bytes(branch.logical_size)}
      </div>
      <div role="cell" data-title="Written">
        {bytes(branch.written_data_bytes)}
      </div>
      <div role="cell" data-title="Created">
        <Moment at={branch.created_at} />
      </div>
      <div role="cell" className="actions">
        <ConnectBranch branch={branch} endpoint={endpoint} />
        <DeleteBranch branch={branch} onChange={refresh} />
      </div>
    </>
  )
}

function BranchName({ branch, depth }: { readonly branch: Branch; readonly depth: number }) {
  return (
    <span className="branch" data-depth={Math.min(depth, MAX_DEPTH)}>
      <Link href={`/projects/${branch.project_id}/branches/${branch.id}`}>{branch.name}</Link>
      {branch.default && <span className="mark">default</span>}
      {branch.protected && <span className="mark">protected</span>}
      {branch.current_state === 'init' && <span className="mark running">being made</span>}
      {branch.current_state === 'archived' && <span className="mark">archived</span>}
      <Copied text={branch.id} what="the branch's id" />
      {branch.expires_at && (
        <small>
          expires <Moment at={branch.expires_at} />
        </small>
      )}
    </span>
  )
}
