import { spawn } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'

/** How long a browser has to read the page that leads to the link. */
const READ_MS = 30_000

/**
 * Opens a sign-in link in the browser of the person at this machine. Arguments of programs are visible to all users of
 * a machine, so the browser is given a file that only its user can read, and that leads to the link. Failures are
 * ignored: the link was printed.
 */
export function openBrowser(url: string, dataDir: string): void {
  const page = join(dataDir, 'sign-in.html')
  rmSync(page, { force: true })
  writeFileSync(
    page,
    `<!doctype html><meta http-equiv="refresh" content="0;url=${url}"><a href="${url}">Console</a>\n`,
    {
      mode: 0o600,
      flag: 'wx',
    },
  )
  const program = process.platform === 'darwin' ? 'open' : 'xdg-open'
  const child = spawn(program, [pathToFileURL(page).href], { detached: true, stdio: 'ignore' })
  child.on('error', () => undefined)
  child.unref()
  setTimeout(() => rmSync(page, { force: true }), READ_MS).unref()
}

/** Whether a person who can see a browser has started this process: at a terminal, with a screen, and not over SSH. */
export function hasScreen(env: NodeJS.ProcessEnv): boolean {
  if (!process.stdout.isTTY || env['SSH_CONNECTION']) return false
  return process.platform === 'darwin' || [env['DISPLAY'], env['WAYLAND_DISPLAY']].some(Boolean)
}
