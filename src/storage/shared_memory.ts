import { execFile } from 'node:child_process'
import { readFile, readdir, stat, unlink } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { BARE_ENVIRONMENT } from '../host/script.ts'
import { readPostmasterFile } from '../postgres/postmaster_file.ts'

/**
 * Removes the shared memory of a data directory in which no server will start again. A killed server leaves it behind,
 * and its next start would have removed it.
 */
export async function removeSharedMemory(pgdata: string): Promise<void> {
  const id = readPostmasterFile(pgdata)?.sharedMemoryId
  if (process.platform !== 'linux' || id === undefined) return
  const { uid } = await stat(pgdata)
  const table = await readFile('/proc/sysvipc/shm', 'utf8').catch(() => '')
  const segments = table.split('\n').map((line) => line.trim().split(/\s+/).map(Number))
  // Columns: key, shmid, perms, size, cpid, lpid, nattch, uid.
  const isUnused = segments.some((columns) => columns[1] === id && columns[6] === 0 && columns[7] === uid)
  if (isUnused) await promisify(execFile)('ipcrm', ['-m', String(id)], { env: BARE_ENVIRONMENT }).catch(() => undefined)
  // A branch's own uid owns only that branch's files. An ordinary user's servers keep the rest in their data
  // directories.
  if (uid === process.getuid?.()) return
  for (const name of (await readdir('/dev/shm')).filter((file) => file.startsWith('PostgreSQL.'))) {
    const path = join('/dev/shm', name)
    if ((await stat(path).catch(() => undefined))?.uid === uid) await unlink(path).catch(() => undefined)
  }
}
