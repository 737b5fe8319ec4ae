/**
 * The thread of a copier that holds the base backup of a running parent for all copies that begin meanwhile. Each
 * copier, also its own, is a member: a connection to its socket.
 *
 *   accepted ──"joined"──▶ waiting ──"begun"──▶ copying ──"copied"▶─▶ copied ──the backup──▶ copies the WAL, and ends
 *
 * It admits members until the first has copied, for five seconds at most, so that members begin at about the same time.
 * The backup ends once all have copied. A member that takes twice as long as the first one is cut off: its copy would
 * not be whole, and it begins again. When this process is killed, Postgres ends the backup, and all begin again.
 */
import { createServer, type Socket } from 'node:net'
import { parentPort, workerData } from 'node:worker_threads'
import { messageOf } from '../errors.ts'
import { SERVER_PORT } from '../host/layout.ts'
import { socketLines } from './backup_messages.ts'
import type { RunningParent } from './parent_session.ts'
import { withTimeout } from '../race.ts'

const ADMISSION_MS = 5_000
const MIN_PATIENCE_MS = 10_000

/** The input of this thread. */
export interface HolderInput {
  readonly socket: string
  readonly parent: RunningParent
}

const { socket: path, parent } = workerData as HolderInput
/** Members that have not copied yet. */
const copying = new Set<Socket>()
const members = new Set<Socket>()
let state: 'waiting' | 'begun' | 'closed' = 'waiting'
const firstCopied = Promise.withResolvers<void>()
let changed = Promise.withResolvers<void>()

const server = createServer(admit)
server.once('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EADDRINUSE') throw error
  report('taken')
})
server.listen(path, () => {
  report('listening')
  void hold()
})

function report(found: 'taken' | 'listening'): void {
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread's, which has no origins
  parentPort?.postMessage(found)
}

function admit(member: Socket): void {
  // The connection was made before admission ended: a new backup serves it.
  if (state === 'closed') return void member.destroy()
  member.on('error', () => undefined)
  copying.add(member)
  members.add(member)
  member.write(state === 'begun' ? 'joined\nbegun\n' : 'joined\n')
  const next = socketLines(member)
  const isOver = new Promise((resolve) => member.once('close', resolve))
  void isOver.then(() => leave(member, members))
  void next().then(
    () => {
      firstCopied.resolve()
      leave(member, copying)
    },
    () => leave(member, copying),
  )
}

function leave(member: Socket, from: Set<Socket>): void {
  from.delete(member)
  changed.resolve()
}

async function hold(): Promise<void> {
  try {
    const { ADMIN, ownSession } = await import('../postgres/own_session.ts')
    const { baseBackup } = await import('../postgres/base_backup.ts')
    const { socketDir: host, passwords } = parent
    const session = await ownSession({ host, port: SERVER_PORT, user: ADMIN, passwords, name: 'neap: branch' })
    try {
      tell(await baseBackup(session, `neap_branch_${process.pid}`, whileAllCopy))
      // The session retains the WAL.
      await emptied(members, MIN_PATIENCE_MS)
    } finally {
      await session.end().catch(() => undefined)
    }
  } catch (error) {
    tell({ error: messageOf(error), code: (error as NodeJS.ErrnoException).code })
  } finally {
    closeAdmission()
    for (const member of members) member.destroySoon()
  }
}

/** Resolves when all members have copied, or when those that have not take too long. */
async function whileAllCopy(): Promise<void> {
  const began = performance.now()
  state = 'begun'
  for (const member of members) member.write('begun\n')
  const timer = setTimeout(closeAdmission, ADMISSION_MS)
  // Without members there is no copy to wait for: the one that started this thread has ended.
  while (copying.size > 0 && (await Promise.race([firstCopied.promise, change()])) === 'changed');
  clearTimeout(timer)
  closeAdmission()
  await emptied(copying, Math.max(MIN_PATIENCE_MS, performance.now() - began))
  for (const late of copying) late.destroy()
}

function closeAdmission(): void {
  if (state === 'closed') return
  state = 'closed'
  server.close()
}

/** Resolves once all of these members have left, at the latest after so many milliseconds. */
async function emptied(all: ReadonlySet<Socket>, ms: number): Promise<void> {
  const until = performance.now() + ms
  while (all.size > 0 && performance.now() < until) await withTimeout(change(), until - performance.now(), 'late')
}

async function change(): Promise<'changed'> {
  changed = Promise.withResolvers()
  await changed.promise
  return 'changed'
}

function tell(answer: object): void {
  for (const member of members) member.write(`${JSON.stringify(answer)}\n`)
}
