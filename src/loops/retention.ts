/*
 * Removes rows past their retention, each kind by itself: a statement removes a bounded number of rows, the oldest
 * first, which an index finds; while a kind has more, it goes on every second; one that fails is tried again later and
 * holds up no other kind.
 *
 * Tables are not partitioned by time: the unique keys of a partitioned table contain its partition key, but operations
 * are found by id alone and ordered within a project; and the existing tables would have to be written anew.
 */
import { expireAudit } from '../catalog/audit.ts'
import { expireComputes } from '../catalog/compute.ts'
import { expireHistory } from '../catalog/compute_history.ts'
import { expireConsumption, expireSizes } from '../catalog/consumption.ts'
import { expireDeletedBranches, expireDeletedProjects } from '../catalog/deleted.ts'
import { expireReplies } from '../catalog/idempotency.ts'
import { expireOperations } from '../catalog/operation.ts'
import { expireEvents } from '../catalog/operation_event.ts'
import { expireInvitations } from '../catalog/invitation.ts'
import { expireChallenges } from '../catalog/passkey.ts'
import { expirePasswordlessLogins } from '../catalog/passwordless_login.ts'
import { expirePauses } from '../catalog/proxy.ts'
import { expireRefusals } from '../catalog/refused_access.ts'
import { expireScalings } from '../catalog/scaling.ts'
import { expireSessions, expireSignInLinks } from '../catalog/session.ts'
import { expireTraffic, expireTrafficWriters } from '../catalog/traffic.ts'
import { expireDeliveries } from '../catalog/webhook_delivery.ts'
import type { Config } from '../config.ts'
import type { WorkerContext } from '../context.ts'
import { expireWal } from '../operations/wal_history.ts'
import { createEventLoop } from '../event_loop.ts'
import type { Loop } from './periodic.ts'

const EVERY_MS = 3_600_000
/** Between two batches of a kind. */
const PAUSE_MS = 1_000
const RETRY_MS = 600_000
/** Rows of a kind that one statement removes. */
const BATCH = 2_000
/** How long the operations of a deleted project, events, deliveries and ended computes can be read. */
const KEPT_DAYS = 7
/** How long a request can be repeated with its Idempotency-Key. */
const REPLY_HOURS = 24

type RetentionContext = Pick<WorkerContext, 'catalog' | 'log' | 'hostId'> & {
  readonly storage: Pick<WorkerContext['storage'], 'tidy' | 'removeHistory'>
  readonly config: Pick<Config, 'operationsDays' | 'auditDays' | 'metricsDays' | 'historyMaxMb'>
}

/** Removes a batch. Returns how many rows it removed, or whether more are left; undefined when it removed all. */
type Expire = () => Promise<number | boolean | void>

function kinds(context: RetentionContext): Readonly<Record<string, Expire>> {
  const { catalog, config, storage } = context
  return {
    operations: () => expireOperations(catalog, config.operationsDays, BATCH),
    'deleted projects': () => expireDeletedProjects(catalog, KEPT_DAYS, BATCH),
    'deleted branches': () => expireDeletedBranches(catalog, BATCH),
    audit: () => expireAudit(catalog, config.auditDays, BATCH),
    pauses: () => expirePauses(catalog, BATCH),
    replies: () => expireReplies(catalog, REPLY_HOURS, BATCH),
    sessions: () => expireSessions(catalog, BATCH),
    'sign-in links': () => expireSignInLinks(catalog, BATCH),
    'challenges of passkeys': () => expireChallenges(catalog, BATCH),
    invitations: () => expireInvitations(catalog, BATCH),
    'passwordless logins': () => expirePasswordlessLogins(catalog, BATCH),
    events: () => expireEvents(catalog, KEPT_DAYS, BATCH),
    deliveries: () => expireDeliveries(catalog, KEPT_DAYS, BATCH),
    traffic: () => expireTraffic(catalog, BATCH),
    'writers of traffic': () => expireTrafficWriters(catalog, BATCH),
    consumption: () => expireConsumption(catalog, BATCH),
    sizes: () => expireSizes(catalog, BATCH),
    computes: () => expireComputes(catalog, KEPT_DAYS, BATCH),
    scalings: () => expireScalings(catalog, KEPT_DAYS, BATCH),
    refusals: () => expireRefusals(catalog, BATCH),
    figures: () => expireHistory(catalog, config.metricsDays, BATCH),
    'history of branches': () => expireWal(context),
    'notes of removals': () => storage.tidy(),
  }
}

/** Removes rows past their retention, once an hour and at the start. */
export function startRetentionLoop(context: RetentionContext): Loop {
  const steps = Object.entries(kinds(context)).map(([kind, expire]) => ({ kind, expire, dueAt: 0 }))
  let isStopped = false

  async function run({ kind, expire }: (typeof steps)[number]): Promise<number> {
    try {
      const removed = await expire()
      return removed === true || removed === BATCH ? PAUSE_MS : EVERY_MS
    } catch (error) {
      context.log.warn({ err: error, kind }, 'could not remove old rows')
      return RETRY_MS
    }
  }

  const loop = createEventLoop({
    async look() {
      for (const step of steps)
        if (!isStopped && step.dueAt <= performance.now()) step.dueAt = (await run(step)) + performance.now()
      return Math.max(0, Math.min(...steps.map(({ dueAt }) => dueAt)) - performance.now())
    },
    onError: (error) => context.log.warn({ err: error }, 'could not remove old rows'),
  })
  loop.wake()
  return {
    stop() {
      isStopped = true
      return loop.stop()
    },
  }
}
