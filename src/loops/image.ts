import { recordImage, tellImageResized, tellImageShort } from '../catalog/image.ts'
import { bytesText } from '../bytes.ts'
import type { WorkerContext } from '../context.ts'
import { type Loop, startPeriodic } from './periodic.ts'

/** An image that is short of room has 15 % free: that is to last until the next turn. */
const EVERY_MS = 2_000

/** The host's row is written when it can grow by so much more or less. */
const COARSE_BYTES = 256 * 2 ** 20

/** Lets the image of this host's stores follow the size of its content, and reports each change. */
export function startImageLoop({ catalog, storage, config, hostId, log }: WorkerContext): Loop {
  const most = config.imageMaxMb === undefined ? undefined : config.imageMaxMb * 2 ** 20
  let [recorded, problem]: [string, string | null] = ['', null]

  const look = async (): Promise<void> => {
    const tended = await storage.tendImage(most)
    const { image, change = 0 } = tended ?? {}
    if (image && change !== 0) {
      const words = change > 0 ? 'has grown by' : 'has given back to the disk below'
      log.info({ change, bytes: image.bytes }, `the image of the branches ${words} ${bytesText(Math.abs(change))}`)
      await tellImageResized(catalog, hostId, { bytes: image.bytes, change_bytes: change })
    }
    // Its amounts change all the time: the reason does not.
    const isNew = image?.problem && problem === null
    problem = image?.problem ?? null
    if (image && isNew) {
      log.error({ bytes: image.bytes, free: image.free_bytes }, image.problem)
      const { bytes, free_bytes } = image
      await tellImageShort(catalog, hostId, { bytes, free_bytes, reason: image.problem })
    }
    const growable = Math.floor((image?.growable_bytes ?? 0) / COARSE_BYTES) * COARSE_BYTES
    const state = image && { bytes: image.bytes, trimmed_bytes: image.trimmed_bytes, problem: image.problem }
    const text = JSON.stringify([state, growable])
    if (text === recorded) return
    await recordImage(catalog, hostId, state, growable)
    recorded = text
  }
  return startPeriodic(EVERY_MS, look, (error) => log.warn({ err: error }, 'could not look at the image of branches'))
}
