import type { Db } from './catalog.ts'
import { sql } from './sql.ts'

/** The image of a host's stores. */
export interface HostImage {
  /** Its share of the disk below. */
  readonly bytes: number
  /** The room that a trim gave back to that disk. */
  readonly trimmed_bytes: number
  /** Why it does not grow although it is short of room; null otherwise. */
  readonly problem: string | null
}

/** Records the image of a host, undefined without one, and by how much the disk of its stores may grow by itself. */
export async function recordImage(
  db: Db,
  hostId: string,
  image: HostImage | undefined,
  growableBytes: number,
): Promise<void> {
  await db.rows(sql`
    update host set image = ${image && JSON.stringify(image)}::jsonb, growable_bytes = ${growableBytes}
     where id = ${hostId}`)
}

/** Tells webhooks that an image has another size. A host has no account: webhooks of the default one are told. */
export const tellImageResized = (
  db: Db,
  hostId: string,
  change: { readonly bytes: number; readonly change_bytes: number },
): Promise<void> => tell(db, 'host.image_resized', { host_id: hostId, ...change })

/** Tells webhooks that an image is short of room and cannot grow. */
export const tellImageShort = (
  db: Db,
  hostId: string,
  state: { readonly bytes: number; readonly free_bytes: number; readonly reason: string | null },
): Promise<void> => tell(db, 'host.image_short', { host_id: hostId, ...state })

async function tell(db: Db, event: string, what: object): Promise<void> {
  await db.rows(sql`
    select tell_webhooks(id, null, array[${event}]::text[], ${JSON.stringify(what)}::jsonb)
      from account where is_default`)
}
