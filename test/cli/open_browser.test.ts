import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test, type TestContext } from 'node:test'
import { envOf, leaveNothing, newDataDir } from '../neap.ts'
import { without } from '../clients.ts'
import { processesOf, until } from '../processes.ts'

/* At a terminal with a screen `neap up` opens the console. Only xdg-open is not the real program here. */

const skip = without('script')

test('neap up opens the sign-in link by a file that only its user can read', { skip }, async (t) => {
  const { said, opened } = await upAtTerminal(t, '')
  const { mode, text } = await until('the browser is opened', () => opened())
  const [url] = /http:\S+#sign-in=\w+/.exec(said()) ?? []
  assert.ok(url !== undefined && text.includes(`content="0;url=${url}"`), text)
  assert.equal(mode, '600')
})

test('neap up --no-open opens no browser', { skip }, async (t) => {
  const { opened } = await upAtTerminal(t, ' --no-open')
  assert.equal(opened(), undefined)
})

/** Runs `neap up` at a terminal until it says that it is up. */
async function upAtTerminal(t: TestContext, flags: string) {
  const dataDir = newDataDir()
  const programs = join(dataDir, 'programs')
  mkdirSync(programs)
  const note = join(programs, 'opened')
  writeFileSync(
    join(programs, 'xdg-open'),
    `#!/bin/sh\nfile="\${1#file://}"\n(stat -c %a "$file"; cat "$file") >${note}.new && mv ${note}.new ${note}\n`,
    { mode: 0o755 },
  )
  const env = envOf(dataDir, { DISPLAY: ':9', PATH: `${programs}:${process.env['PATH']}`, SSH_CONNECTION: undefined })
  const command = `bin/neap up --api-port 0 --proxy-port 0 --no-project${flags}`
  const child = spawn('script', ['-qec', command, '/dev/null'], { env, stdio: ['ignore', 'pipe', 'ignore'] })
  const ended = once(child, 'exit')
  let said = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said += text))
  t.after(async () => {
    // By its command: the lowest pid may be a part's, which ignores SIGINT, once the kernel's pids have wrapped.
    const supervisor = processesOf(dataDir).find((found) => found.command.includes('/main.ts up '))
    assert.ok(supervisor)
    process.kill(supervisor.pid, 'SIGINT')
    await ended
    await leaveNothing(dataDir)
  })
  await until('Neap is up', () => said.includes('Ctrl-C suspends'))
  return {
    said: () => said,
    opened: () => {
      if (!existsSync(note)) return undefined
      const [mode = '', ...lines] = readFileSync(note, 'utf8').split('\n')
      return { mode, text: lines.join('\n') }
    },
  }
}
