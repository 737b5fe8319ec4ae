import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect as connectTcp } from 'node:net'
import { join } from 'node:path'
import { peer } from '../clients/peers.ts'
import { type Answer, send } from '../http.ts'
import { type Neap, startNeap } from '../neap.ts'
import { postmastersOf } from '../processes.ts'
import type { Place } from '../project.ts'
import type { Checks } from './checks.ts'
import type { Disk } from './disk.ts'
import type { History } from './history.ts'
import type { Latencies } from './latency.ts'

/** A branch with its endpoint, and the expected state of its data. */
export interface Spot extends Place {
  readonly name: string
  /** The directory of its data: after a restore not the branch's own. */
  readonly store: string
  /** The hash of the entries it inherited from its parent, which never changes. Unknown until they are first read. */
  inherited?: string | undefined
  /** A request to delete it has been sent, and possibly answered. */
  leaving: boolean
  readonly writers: Writer[]
  /** Pooled sessions, which survive a suspend or restart of the compute and continue to write. */
  readonly pooled: Set<Promise<void>>
  readonly parent?: Spot
  /** The restored branch of which it preserves the former data. */
  readonly before?: Spot
  children: number
}

/** The writes that a writer attempted, and those that were acknowledged. */
export interface Writer {
  readonly name: string
  attempted: number
  acknowledged: number
}

/** The shared state of a run. */
export interface World {
  neap: Neap
  /** The owner's key, which only the first start prints. */
  readonly key: string
  readonly dataDir: string
  readonly seed: number
  readonly history: History
  readonly checks: Checks
  readonly latencies: Latencies
  readonly spots: Spot[]
  /** Answered writes by request id: 'again' for a replayed reply. */
  readonly answered: Map<string, 'anew' | 'again'>
  /** Where backups are made to, once they have begun. */
  repository?: { readonly location: string; readonly passphrase: string } | undefined
  readonly disk: Pick<Disk, 'own' | 'freeze' | 'thaw'>
  readonly stopping: AbortSignal
  /** Requests are sent once it has resolved. */
  held: Promise<void>
  /** Ends the whole control plane by calling `how`, and starts it again. */
  restart(how: () => Promise<void>): Promise<void>
}

/** The drain timeout of a proxy. */
export const DRAIN_MS = 3_000

export const env = {
  NEAP_PROXY_DRAIN: String(DRAIN_MS / 1000),
  NEAP_PROXIES: '2',
  NEAP_SUSPEND_TIMEOUT: '1',
  NEAP_AVAILABILITY_INTERVAL: '20',
  NEAP_BRANCH_RECOVER_HOURS: '1',
  NEAP_RATE_LIMIT_PER_MINUTE: '0',
  NEAP_RATE_LIMIT_PER_SECOND: '0',
  NEAP_PGBACKREST: peer('pgbackrest/pgbackrest'),
}

/** The branches that are not being deleted. */
export const standing = (world: World): Spot[] => world.spots.filter((spot) => !spot.leaving)

/** Resolves when API and proxy answer again. */
export async function healed(world: World): Promise<void> {
  for (;;) {
    const answered = await send(world.neap, 'GET', '/projects?limit=1', { key: world.key }).catch(() => undefined)
    if (answered?.status === 200 && (await proxyListens(world))) return
    await pause(50)
  }
}

async function proxyListens({ neap }: World): Promise<boolean> {
  const socket = connectTcp(neap.ready.proxy_port, '127.0.0.1')
  const listens = await once(socket, 'connect').then(
    () => true,
    () => false,
  )
  socket.destroy()
  return listens
}

/**
 * Sends a write until it is answered, with the same Idempotency-Key each time; waits while the API is unavailable for a
 * recorded reason. Any other failure is a violation.
 */
export async function request(
  world: World,
  method: string,
  path: string,
  body?: unknown,
  key = `chaos-${randomUUID()}`,
): Promise<Answer> {
  const { history, checks } = world
  for (;;) {
    await world.held
    const since = Date.now()
    const options = { key: world.key, headers: { 'idempotency-key': key }, ...(body !== undefined && { body }) }
    const answer = await send(world.neap, method, path, options).catch((error: unknown) => error as Error)
    const away = answer instanceof Error || answer.status === 503
    const words = answer instanceof Error ? causeOf(answer) : `${answer.status} ${answer.body.message ?? ''}`
    if (answer instanceof Error || answer.status >= 500) {
      const excused = away && history.excuse('requests', since, Date.now())
      checks.record('answered', !excused && `${method} ${path} was answered ${words}`)
      await pause(100)
      continue
    }
    checks.record('answered', undefined)
    const replayed = answer.headers.get('idempotency-replayed') !== null
    world.answered.set(answer.headers.get('x-request-id') ?? '', replayed ? 'again' : 'anew')
    history.note(`${method} ${path}${body === undefined ? '' : ` ${JSON.stringify(body)}`}: ${words.trim()}`)
    return answer
  }
}
/** A host reports the room on its disk every ten seconds, so a refusal may outlast a full disk by that. */
const HEARTBEAT_MS = 11_000
/** What that causes is noticed so much later. */
const SHORT_MS = 90_000

/** Whether a write was refused because the disk is, or has just been, full. */
export function isShortOfDisk({ history }: World, { status, body }: Answer): boolean {
  const isRefused = status === 422 && (body.message ?? '').startsWith('The disk of its host is almost full')
  return isRefused && history.lasting(Date.now() - HEARTBEAT_MS, Date.now()).includes('the disk is full')
}

/** Whether deleted branches may have been removed before their time, and copies refused. */
export const wasDiskShort = ({ history }: World): boolean =>
  history.lasting(Date.now() - SHORT_MS, Date.now()).includes('the disk is full')

const causeOf = (error: Error): string => (error.cause instanceof Error ? error.cause.message : error.message)

/** Waits until operations have ended, in either state; the check of deadlines covers those that do not end. */
export async function awaitEnds(world: World, answer: Answer): Promise<void> {
  const operations = (answer.body['operations'] ?? []) as { id: string; project_id: string }[]
  for (const { id, project_id } of operations) {
    for (;;) {
      const now = await send(world.neap, 'GET', `/projects/${project_id}/operations/${id}`, { key: world.key }).catch(
        () => undefined,
      )
      const operation = now?.body['operation'] as { status: string } | undefined
      if (now?.status === 404 || ['finished', 'failed'].includes(operation?.status ?? '')) break
      if (world.stopping.aborted) return
      await pause(100)
    }
  }
}

/** The data directory of a branch. */
export const pgdataOf = ({ dataDir }: World, { store }: Spot): string => join(dataDir, 'branches', store, 'pgdata')

/** The pid of the postmaster that serves a branch. Returns undefined when no postmaster does. */
export const postmasterOf = (world: World, spot: Spot): number | undefined =>
  postmastersOf(world.dataDir).find(({ directory }) => directory === pgdataOf(world, spot))?.pid

export const catalogOf = (world: World): number | undefined =>
  postmastersOf(world.dataDir).find(({ directory }) => directory.endsWith('/catalog/pgdata'))?.pid

export const open = (dataDir: string): Promise<Neap> => startNeap({ dataDir, env })

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
