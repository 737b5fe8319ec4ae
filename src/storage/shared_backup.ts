import { once } from 'node:events'
import { mkdirSync, rmSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { BaseBackup } from '../postgres/base_backup.ts'
import type { HolderInput } from './backup_holder.ts'
import { lostBackup, socketLines } from './backup_messages.ts'
import type { RunningParent } from './parent_session.ts'
import { openDirectory, openPath } from './copy_tree.ts'

// In this directory, and compiled exactly when this file is.
const HOLDER = new URL(import.meta.url.endsWith('.ts') ? 'backup_holder.ts' : 'backup_holder.js', import.meta.url)

const MAX_ATTEMPTS = 8
/** The holder answers from a thread of its own: only a frozen one takes longer. */
const JOIN_MS = 3_000
/** Postgres begins a backup with a checkpoint. */
const BEGIN_MS = 600_000
const MIN_PATIENCE_MS = 20_000

/** A copier's part in a backup that has begun. */
export interface BackupMember {
  /** Call when all but the WAL was copied. Resolves when the backup has ended. Errors: the copy must begin again. */
  copied(): Promise<BaseBackup>
  /** Call when the WAL was copied as well, or the copy has failed: until then the parent retains it. */
  end(): Promise<void>
}

/**
 * Joins the base backup of a running parent, or begins one that copies of the next seconds join: each backup ends two
 * segments of WAL, and its copies need all segments that others ended meanwhile.
 * @param home the parent's directory
 */
export async function joinBackup(home: string, parent: RunningParent): Promise<BackupMember> {
  const directory = join(home, 'backup')
  // Computes have no access to it.
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  // The path of a socket is limited to 107 bytes (unix(7)), and that of a data directory is not.
  const path = join(openPath(openDirectory(directory)), 'socket')
  let holder: Worker | undefined
  for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt++) {
    const socket = await connected(path)
    if (!socket) {
      holder = (await startHolder({ socket: path, parent })) ?? holder
      continue
    }
    const next = socketLines(socket)
    const joined = await next(JOIN_MS).catch(() => undefined)
    if (joined !== undefined) return memberOf(socket, next, await begun(joined, next), holder)
    socket.destroy()
    // Closed: that backup admits no more members. Otherwise it belongs to a frozen process.
    rmSync(path, { force: true })
  }
  throw lostBackup('no backup of the parent could be joined')
}

async function begun(joined: string, next: (ms: number) => Promise<string>): Promise<number> {
  const line = joined === 'joined' ? await next(BEGIN_MS) : joined
  if (line !== 'begun') throw errorOf(line)
  return performance.now()
}

function memberOf(
  socket: Socket,
  next: (ms: number) => Promise<string>,
  began: number,
  holder: Worker | undefined,
): BackupMember {
  return {
    async copied() {
      socket.write('copied\n')
      const line = await next(Math.max(MIN_PATIENCE_MS, 2 * (performance.now() - began)))
      const answer = JSON.parse(line) as BaseBackup | { error: string }
      if ('error' in answer) throw errorOf(line)
      return answer
    },
    async end() {
      socket.destroy()
      // This process is noted as a copier, and ends, only after the copies that it serves.
      if (holder && holder.threadId > 0) await once(holder, 'exit')
    },
  }
}

function errorOf(line: string): Error {
  const { error, code } = JSON.parse(line) as { error: string; code?: string }
  return Object.assign(new Error(error), { code })
}

/** Connects to the holder of a backup; undefined when no copier holds one. */
async function connected(path: string): Promise<Socket | undefined> {
  const socket = connect(path)
  try {
    await once(socket, 'connect')
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT' && code !== 'ECONNREFUSED') throw error
    // Left by a process that was killed. Of two that remove it at the same time, both may hold a backup.
    if (code === 'ECONNREFUSED') rmSync(path, { force: true })
    return undefined
  }
  socket.on('error', () => undefined)
  return socket
}

/** Starts a thread that holds a backup; undefined when another copier was first. */
async function startHolder(input: HolderInput): Promise<Worker | undefined> {
  const worker = new Worker(HOLDER, { workerData: input, stdin: false })
  const [state] = (await once(worker, 'message')) as [string]
  return state === 'listening' ? worker : undefined
}
