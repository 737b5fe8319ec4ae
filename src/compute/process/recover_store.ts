import type pg from 'pg'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { replaceFile } from '../../durable_file.ts'
import type { Progress } from '../../host/fence.ts'
import { SERVER_PORT } from '../../host/layout.ts'
import { ConfigurationError, ServerStartError } from '../../host/failures.ts'
import { complaintIn, saysSinceStart } from '../../host/logs.ts'
import { ADMIN, unprovenSession, endSession } from '../../postgres/own_session.ts'
import { setOwnRoles } from '../../postgres/own_roles.ts'
import { scramVerifier } from '../../postgres/scram_verifier.ts'
import { WITHOUT_PREWARM } from '../../postgres/settings.ts'
import { KEEP_WAL_SQL } from '../../postgres/wal_slot.ts'
import { lsnPosition, lsnText } from '../../postgres/wal.ts'
import type { StoreSecrets } from '../../secrets/stores.ts'
import { notePassword, passwordNote } from '../../storage/password_note.ts'
import { forgetRecovery, notedRecovery, noteRecovery, type Recovery, RECOVERY_SIGNAL } from '../../storage/replay.ts'
import { type ServerPlan, startServer } from './server.ts'
import { stopServer } from './stop_server.ts'
import { UNPROVEN_HBA } from './store_password.ts'

/**
 * Recovers a store to its moment, if it was made of one (Postgres manual, "Recovering Using a Continuous Archive
 * Backup"). Neap's own roles have there passwords of that moment, perhaps under a key that is gone: they are given
 * those of this store while no client can reach the server, which then runs on. Repeatable after a kill at any point.
 */
export async function recoverStore(plan: ServerPlan, store: string, secrets: StoreSecrets): Promise<Progress> {
  const { home, socketDir } = plan
  const recovery = notedRecovery(home)
  if (!recovery) return 'done'
  // An earlier call was killed with all done but its end, when its server may ask for a password already.
  if (passwordNote(home) === secrets.note(store)) {
    if ((await stopServer(home, { fence: plan.fence })) === 'pending') return 'pending'
    return end(home)
  }
  // A recovery that lasts ends after the call that began it.
  const endedBefore = saysSinceStart(plan.logFile, ENDED_BEFORE)
  if (recovery.target && endedBefore) return replayAll(home, recovery)
  if (!endedBefore && saysSinceStart(plan.logFile, GAVE_UP) && !saysSinceStart(plan.logFile, NO_ROOM))
    throw new ServerStartError(`Postgres did not recover: ${complaintIn(plan.logFile, 0)}`)
  const config = plan.config + WITHOUT_PREWARM + configOf(recovery)
  const alone = { ...plan, egress: '', hba: UNPROVEN_HBA, config, overrides: COMMANDS }
  const server = await startServer(alone).catch(async (error: unknown) => {
    if (!(error instanceof ServerStartError) || !ENDED_BEFORE.test(error.message)) throw error
    return replayAll(home, recovery)
  })
  if (server === 'pending') return 'pending'
  const timeoutMs = 4_000
  const session = await unprovenSession({ host: socketDir, port: SERVER_PORT, user: ADMIN, name: PURPOSE, timeoutMs })
  try {
    await session.query(KEEP_WAL_SQL)
    await requireReplayed(session, recovery)
    const admin = await scramVerifier(secrets.admin(store)[0])
    const reader = await scramVerifier(secrets.loginReader(store)[0])
    await setOwnRoles(session, { admin, reader })
    // They are the other store's, and would consume from its publisher's slots.
    await session.query('update pg_subscription set subenabled = false where subenabled')
    await notePassword(home, secrets.note(store))
    await replaceFile(join(home, 'conf', 'pg_hba.conf'), 0o644, Buffer.from(plan.hba))
    await session.query('select pg_reload_conf()')
  } finally {
    await endSession(session)
  }
  return end(home)
}

async function end(home: string): Promise<Progress> {
  await rm(join(home, 'pgdata', RECOVERY_SIGNAL), { force: true })
  forgetRecovery(home)
  return 'done'
}

const PURPOSE = 'neap: recovery'

/** Without a commit after the moment all that there is leads to it. */
async function replayAll(home: string, { timeline, last, target }: Recovery): Promise<'pending'> {
  await noteRecovery(home, { timeline, last, ...(target && 'lsn' in target && { lsn: target.lsn }) })
  return 'pending'
}

/** Postgres takes WAL that it cannot read for the end of all. Errors: ConfigurationError. */
async function requireReplayed(session: pg.Client, { target, last, lsn }: Recovery): Promise<void> {
  if (target) return
  const { rows } = await session.query<{ lsn: string }>('select pg_current_wal_lsn()::text as lsn')
  const position = lsnPosition(rows[0]?.lsn ?? '') ?? 0
  if (lsn !== undefined && position < (lsnPosition(lsn) ?? 0))
    throw new ConfigurationError(`The WAL of the branch ends at ${lsnText(position)}, before ${lsn}.`)
  if (position < last)
    throw new ConfigurationError(`The history has a gap: Postgres could not read its WAL beyond ${lsnText(position)}.`)
}

/** The complaint of Postgres when the WAL ends before the moment. */
const ENDED_BEFORE = /recovery ended before configured recovery target was reached/
/** It would fail again, but for want of room. */
const GAVE_UP = /startup process \(PID \d+\) exited with exit code 1\b/
const NO_ROOM = /No space left on device|Disk quota exceeded/

/** All WAL that is needed is in pg_wal. */
const COMMANDS = { restore_command: 'false', archive_cleanup_command: '', recovery_end_command: '' }

function configOf({ target, timeline }: Recovery): string {
  const settings = {
    recovery_target_timeline: String(parseInt(timeline, 16)),
    recovery_target_action: 'promote',
    ...targetSettings(target),
    hot_standby: 'off',
    max_logical_replication_workers: '0',
    autovacuum: 'off',
  }
  return Object.entries(settings)
    .map(([name, value]) => `${name} = '${value}'\n`)
    .join('')
}

/** A commit at the moment counts; a record that begins at the position does not: it ends what was written before. */
function targetSettings(target: Recovery['target']): Record<string, string> {
  if (!target) return {}
  return 'lsn' in target
    ? { recovery_target_lsn: target.lsn, recovery_target_inclusive: 'off' }
    : { recovery_target_time: target.timestamp.replace(/z$/i, '+00'), recovery_target_inclusive: 'on' }
}
