import { useQuery } from '@tanstack/react-query'
import type { ApiResponse } from '../../../src/client.ts'
import { type Branch, call } from '../api.ts'
import { keysOf } from '../live.ts'
import { bytes, count } from './amounts.ts'
import { Moment } from './time.tsx'

type BranchUsage = ApiResponse<'GET /projects/:project_id/branches/:branch_id/disk_usage'>['disk_usage']
type ProjectUsage = ApiResponse<'GET /projects/:project_id/disk_usage'>['disk_usage']

const HOURS_OF_DAY = 24

function useBranchDiskUsage({ project_id, id }: Branch) {
  return useQuery({
    queryKey: [...keysOf(project_id).state, 'disk usage', id],
    queryFn: async () => {
      const params = { project_id, branch_id: id }
      return (await call('GET /projects/:project_id/branches/:branch_id/disk_usage', { params })).disk_usage
    },
  })
}

/** A period of whole hours, in days where it is some. */
function period(hours: number): string {
  const [amount, unit] = hours % HOURS_OF_DAY === 0 ? [hours / HOURS_OF_DAY, 'day'] : [hours, 'hour']
  return `${count(amount)} ${unit}${amount === 1 ? '' : 's'}`
}

const amountOf = ({ is_exact }: BranchUsage | ProjectUsage, freed: number): string =>
  is_exact === false ? `at least ${bytes(freed)}` : bytes(freed)

/** The facts of a branch about its disk: what it takes, and what its deletion frees. */
export function DiskUsageFacts({ branch }: { readonly branch: Branch }) {
  const usage = useBranchDiskUsage(branch).data
  return (
    <>
      <dt>On disk</dt>
      <dd>
        {usage?.apparent_bytes === undefined ? (
          'not measured yet'
        ) : (
          <>
            {usage.own_bytes === undefined
              ? bytes(usage.apparent_bytes)
              : `${amountOf(usage, usage.own_bytes)} its own`}{' '}
            <small>
              of {bytes(usage.apparent_bytes)}; {HOW[usage.clone_mode ?? 'copy']}
            </small>
          </>
        )}
      </dd>
      {usage?.history_bytes !== undefined && (
        <>
          <dt>Its history</dt>
          <dd>
            {bytes(usage.history_bytes)} <small>of its own</small>
          </dd>
        </>
      )}
      {usage !== undefined && usage.snapshots.count > 0 && (
        <>
          <dt>Its snapshots</dt>
          <dd>
            {count(usage.snapshots.count)}{' '}
            {usage.snapshots.own_bytes !== undefined && (
              <small>with {bytes(usage.snapshots.own_bytes)} of their own</small>
            )}
          </dd>
        </>
      )}
      {usage?.deletion.frees_bytes !== undefined && (
        <>
          <dt>Deletion frees</dt>
          <dd>
            {amountOf(usage, usage.deletion.frees_bytes)}{' '}
            {usage.measured_at && (
              <small>
                measured <Moment at={usage.measured_at} />
              </small>
            )}
          </dd>
        </>
      )}
    </>
  )
}

const HOW = {
  reflink: 'blocks are shared with other branches',
  image: 'blocks are shared with other branches, in an image',
  copy: 'branches are copied byte by byte here',
} as const

/** What the deletion of a branch frees, and until when it can be taken back. */
export function BranchDeletion({ branch }: { readonly branch: Branch }) {
  const usage = useBranchDiskUsage(branch).data
  const snapshots = usage?.snapshots.count ?? 0
  return (
    <>
      <p>
        Its compute ends at once.{' '}
        {usage === undefined
          ? 'The branch can be recovered with its data for some days, 7 unless Neap is set otherwise.'
          : isKept(usage)
            ? `The branch can be recovered with its data for ${period(usage.deletion.recoverable_hours)}.`
            : 'Its data is removed at once: it cannot be recovered.'}
      </p>
      {usage && <Freed usage={usage} />}
      {snapshots > 0 && (
        <p>
          {snapshots === 1 ? 'The snapshot that was taken of it stays.' : 'The snapshots that were taken of it stay.'}
        </p>
      )}
    </>
  )
}

const isKept = ({ deletion }: BranchUsage | ProjectUsage): boolean => deletion.recoverable_hours > 0

/** What the deletion of a project frees. */
export function ProjectDeletion({ projectId }: { readonly projectId: string }) {
  const usage = useQuery({
    queryKey: ['project', projectId, 'disk usage'],
    queryFn: async () =>
      (await call('GET /projects/:project_id/disk_usage', { params: { project_id: projectId } })).disk_usage,
  }).data
  return usage ? <Freed usage={usage} /> : null
}

function Freed({ usage }: { readonly usage: BranchUsage | ProjectUsage }) {
  const { frees_bytes: freed } = usage.deletion
  if (freed === undefined) return null
  const what = isKept(usage) ? 'Its data, once it is removed, frees' : 'That frees'
  return (
    <p>
      {what} <strong>{amountOf(usage, freed)}</strong> on the disk
      {usage.measured_at && (
        <>
          {' '}
          <small>
            (measured <Moment at={usage.measured_at} />)
          </small>
        </>
      )}
      .
    </p>
  )
}
