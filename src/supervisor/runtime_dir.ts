import { readdirSync, rmdirSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { defaultRuntimeDir } from '../directories.ts'

/**
 * Removes Neap's own directory of sockets, with what killed servers have left in it, unless a server runs on. Call once
 * no server starts.
 */
export async function removeRuntimeDir(dataDir: string, runtimeDir: string): Promise<void> {
  if (runtimeDir !== defaultRuntimeDir(dataDir)) return
  try {
    for (const entry of readdirSync(runtimeDir, { withFileTypes: true })) {
      const path = join(runtimeDir, entry.name)
      if (entry.isDirectory() && !(await isServed(path))) rmSync(path, { recursive: true })
    }
    rmdirSync(runtimeDir)
  } catch {
    // A server runs on, or the directory is gone.
  }
}

async function isServed(directory: string): Promise<boolean> {
  const sockets = readdirSync(directory).filter((name) => /^\.s\.PGSQL\.\d+$/.test(name))
  const answers = await Promise.all(sockets.map((name) => isListening(join(directory, name))))
  return answers.includes(true)
}

function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
