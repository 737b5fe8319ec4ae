import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION } from '../local_host.ts'
import { withoutOrdinaryUser } from '../ordinary_user.ts'

/*
 * As root, initdb runs as `nobody`, as other services of the machine may. All branches and the catalog are cloned from
 * its result, so no other process of that user may change it meanwhile: a line in postgresql.auto.conf would be in
 * force in all of them.
 */

const NOBODY = 65534

/** Looks for our initdb, and writes into the directory on its command line. */
const POISON = `
  import { appendFileSync, readdirSync, readFileSync } from 'node:fs'
  const seen = new Set()
  const written = new Set()
  process.on('SIGTERM', () => {
    console.log(JSON.stringify({ seen: [...seen], written: [...written] }))
    process.exit()
  })
  setInterval(() => {
    for (const pid of readdirSync('/proc')) {
      if (!/^\\d+$/.test(pid)) continue
      let words = []
      try { words = readFileSync('/proc/' + pid + '/cmdline', 'utf8').split('\\0') } catch {}
      const directory = words[words.indexOf('-D') + 1]
      if (!words.includes('--single') || !directory?.startsWith(process.argv[1])) continue
      seen.add(directory)
      try {
        appendFileSync(directory + '/postgresql.auto.conf', "log_line_prefix = 'poisoned '\\n")
        written.add(directory)
      } catch {}
    }
  }, 1)
  console.log('looking')
`

const skip = withoutOrdinaryUser()
let local: ReturnType<typeof freshHost>

before(() => {
  if (!skip) local = freshHost()
})

after(() => local?.dispose())

test('a process of the user that runs initdb cannot change the template', { skip }, async () => {
  const templates = join(local.options.dataDir, 'templates', String(PG_VERSION))
  const attacker = spawn(process.execPath, ['--input-type=module', '--eval', POISON, templates], {
    uid: NOBODY,
    gid: NOBODY,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let said = ''
  const looking = new Promise<void>((resolve) => {
    attacker.stdout.setEncoding('utf8').on('data', (text: string) => {
      said += text
      resolve()
    })
  })
  await looking
  await local.storage.prepare(PG_VERSION)
  const ended = new Promise((resolve) => attacker.once('close', resolve))
  attacker.kill()
  await ended
  const { seen, written } = JSON.parse(said.split('\n')[1] ?? '') as { seen: string[]; written: string[] }
  assert.equal(seen.length, 1, 'it was there to be seen')
  assert.deepEqual(written, [])
})

test('other users cannot open the lock of a template', { skip }, () => {
  // Any process that can open the file, even for reading, can take a kernel lock on it.
  const lock = join(local.options.dataDir, 'templates', String(PG_VERSION), 'lock')
  assert.equal(statSync(lock).mode & 0o077, 0)
})
