import { useQuery } from '@tanstack/react-query'
import { type Branch, call } from '../../api.ts'
import { bytes } from '../../parts/amounts.ts'
import { Moment } from '../../parts/time.tsx'

const EVERY_MS = 60_000

/** How far the disk and the limit of the branch are used, and when they will be full if they grow as in the last day. */
export function Forecast({ branch }: { readonly branch: Branch }) {
  const read = useQuery({
    queryKey: ['notices'],
    refetchInterval: EVERY_MS,
    queryFn: async () => (await call('GET /notices', {})).notices,
  })
  if (!read.data) return null
  const ofDisk = read.data.filter(
    ({ limit, branch_id }) => limit === 'host_disk' || (limit === 'logical_size_bytes' && branch_id === branch.id),
  )
  if (ofDisk.length === 0)
    return <small>Neither the branch’s limit nor the disk that you may see is used to more than 60 %.</small>
  return ofDisk.map(({ id, limit, level, used, most, full_at }) => (
    <p key={id} className="forecast">
      {limit === 'host_disk' ? 'The disk of its host' : 'The size limit of the branch'} is used to {level} % (
      {bytes(used)} of {bytes(most)}).{' '}
      {full_at === undefined ? (
        'It does not grow.'
      ) : (
        <>
          If it grows as in the last day it is full <Moment at={full_at} />.
        </>
      )}
    </p>
  ))
}
