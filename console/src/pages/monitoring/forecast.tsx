import { useQuery } from '@tanstack/react-query'
import { type Branch, call } from '../../api.ts'
import { bytes } from '../../parts/amounts.ts'
import { Moment } from '../../parts/time.tsx'
import type { Figures } from './figures.ts'

const EVERY_MS = 60_000

/** How far the disk and the limit of the branch are used, and when they will be full if they grow as in the last day. */
export function Forecast({ branch, figures }: { readonly branch: Branch; readonly figures: Figures | undefined }) {
  const read = useQuery({
    queryKey: ['notices'],
    refetchInterval: EVERY_MS,
    queryFn: async () => (await call('GET /notices', {})).notices,
  })
  if (!read.data) return null
  const grown = figures && growthOf(figures)
  const ofDisk = read.data.filter(
    ({ limit, branch_id }) => limit === 'host_disk' || (limit === 'logical_size_bytes' && branch_id === branch.id),
  )
  return (
    <section className="forecast" aria-labelledby="forecast">
      <h3 id="forecast">Disk</h3>
      {grown !== undefined && grown !== 0 && (
        <p>
          The data {grown > 0 ? 'grew' : 'shrank'} by {bytes(Math.abs(grown))} in the time shown.
        </p>
      )}
      {ofDisk.length === 0 && <p>The size limit of the branch, where it has one, is used to less than 60 %.</p>}
      {ofDisk.map(({ id, limit, level, used, most, full_at }) => (
        <p key={id}>
          {limit === 'host_disk' ? 'The disk of its host' : 'The size limit of the branch'} is used to {level} % (
          {bytes(used)} of {bytes(most)}).{' '}
          {full_at === undefined ? (
            'It is not about to be full.'
          ) : (
            <>
              If it grows as in the last day it is full <Moment at={full_at} />.
            </>
          )}
        </p>
      ))}
    </section>
  )
}

/** The bytes by which the data has grown in a time; undefined without two measurements. */
function growthOf({ points }: Figures): number | undefined {
  const sizes = points.flatMap(({ logical_size_bytes: size }) => (size === undefined ? [] : [size]))
  const [first, last] = [sizes[0], sizes.at(-1)]
  return first === undefined || last === undefined || sizes.length < 2 ? undefined : last - first
}
