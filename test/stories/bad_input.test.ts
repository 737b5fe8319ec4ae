import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { envOf, leaveNothing, neapRun, newDataDir, spawnNeap, startNeap } from '../neap.ts'
import { processesOf, until } from '../processes.ts'

/* Every user error is reported in one line that says how to fix it, and leaves no partial state. */

const dir = mkdtempSync(join(tmpdir(), 'neap-bad-'))
chmodSync(dir, 0o711)
const fresh = join(dir, 'data')
const ports = ['--api-port', '0', '--proxy-port', '0']

after(() => rmSync(dir, { recursive: true }))

/** Runs neap and asserts that it refuses in one line and creates no file. */
async function refused(args: readonly string[], why: RegExp, env: NodeJS.ProcessEnv = {}): Promise<void> {
  const before_run = readdirSync(dir)
  const { code, stdout, stderr } = await neapRun(args, envOf(fresh, env))
  assert.match(stderr, why)
  assert.equal(stderr.trimEnd().split('\n').length, 1, stderr)
  assert.deepEqual([code, stdout], [1, ''])
  assert.deepEqual(readdirSync(dir), before_run)
  assert.deepEqual(processesOf(dir), [])
}

async function occupy(port = 0) {
  const server = createServer().listen(port, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    port: typeof address === 'object' && address ? address.port : 0,
    [Symbol.dispose]: () => void server.close(),
  }
}

test('an unknown command, flag or argument is refused', async () => {
  await refused(['fly'], /unknown command 'fly'.*neap --help/)
  await refused(['up', '--fly'], /unknown option '--fly'.*usage: neap up \[options\]/)
  await refused(['up', 'now'], /too many arguments.*usage: neap up \[options\]/)
  await refused(['up', '--api-port'], /--api-port <port>' argument missing/)
  await refused(['key', 'fly'], /unknown command 'fly'.*--help/)
  await refused(['key', 'create', '--scope', 'all'], /'all' is invalid.*read, write, admin/)
  await refused(['key', 'revoke', 'first'], /'first' is invalid.*the number of a key; neap keys list shows them/)
})

test('an invalid setting is refused, by flag and by environment', async () => {
  await refused(['up', '--api-port', 'http'], /--api-port is 'http': it takes a port from 0 to 65535/)
  await refused(['up', ...ports], /NEAP_WAKE_TIMEOUT is 'soon': it takes seconds from 1 to 600/, {
    NEAP_WAKE_TIMEOUT: 'soon',
  })
  await refused(['up', ...ports], /NEAP_DOMAIN is 'A B': it takes a host name/, { NEAP_DOMAIN: 'A B' })
  await refused(['up', ...ports], /longer path than.*NEAP_RUNTIME_DIR/, {
    NEAP_RUNTIME_DIR: join(dir, 'x'.repeat(100)),
  })
})

test('an unusable certificate is refused', async () => {
  await refused(['up', ...ports], /NEAP_TLS_CERT is set and NEAP_TLS_KEY is not/, { NEAP_TLS_CERT: 'tls.crt' })
  await refused(['up', ...ports], /tls\.crt cannot be read: ENOENT/, {
    NEAP_TLS_CERT: 'tls.crt',
    NEAP_TLS_KEY: 'tls.key',
  })
})

test('an unreachable catalog is refused', async () => {
  const url = 'postgresql://neap:secret@127.0.0.1:1/neap'
  await refused(['up', ...ports, '--catalog-url', url], /catalog.*cannot be reached/i)
  await refused(
    ['up', ...ports, '--catalog-url', 'catalog.example'],
    /--catalog-url is 'catalog.example': it takes a Postgres URL/,
  )
  await refused(['api'], /no .*secret.key: begin with neap up/)
})

test('a requested port that is in use is refused', async () => {
  using taken = await occupy()
  const port = String(taken.port)
  await refused(['up', '--api-port', port, '--proxy-port', '0'], new RegExp(`Port ${port} is taken.*--api-port`))
  await refused(['up', '--api-port', '0', '--proxy-port', port], new RegExp(`Port ${port} is taken.*--proxy-port`))
  await refused(['up', '--proxy-port', '0'], new RegExp(`Port ${port} is taken.*--api-port`), { NEAP_API_PORT: port })
})

test('an unusable data directory is refused', async () => {
  const file = join(dir, 'file')
  writeFileSync(file, '')
  await refused(['up', ...ports, '--data-dir', file], /file is not a directory: choose another with --data-dir/)
  await refused(
    ['up', ...ports, '--data-dir', join(file, 'data')],
    /file is not a directory: choose another with --data-dir/,
  )

  const closed = join(dir, 'closed')
  mkdirSync(closed, { mode: 0o500 })
  // Root can write anywhere except /proc and the like, and its computes run as separate users.
  if (process.getuid?.() === 0) {
    await refused(['up', ...ports, '--data-dir', '/proc/neap'], /\/proc\/neap/)
    await refused(['up', ...ports, '--data-dir', join(closed, 'data')], /cannot pass through .*closed.*--data-dir/)
  } else
    await refused(
      ['up', ...ports, '--data-dir', closed],
      /cannot be written to: make it writable for you, or choose another/,
    )

  const newer = join(dir, 'newer')
  mkdirSync(newer)
  writeFileSync(join(newer, 'state.json'), '{"layout": 99}')
  await refused(['up', ...ports, '--data-dir', newer], /written by a newer Neap.*start that version, or choose another/)
  assert.deepEqual(readdirSync(newer), ['state.json'])
})

test('a command without a running Neap is refused', async () => {
  for (const args of [['status'], ['key', 'list'], ['key', 'create'], ['psql']])
    await refused(args, /No Neap runs on .*data: start it with/)
})

test('a data directory in use and a wrong key are refused; stored ports in use are replaced', async (t) => {
  const dataDir = newDataDir()
  const up = ['up', ...ports]
  const env = envOf(dataDir)
  t.after(() => leaveNothing(dataDir))
  const neap = await startNeap({ dataDir })
  const { api_url, proxy_port } = neap.ready
  await refused(up, new RegExp(`runs already on .* \\(pid ${neap.process.pid}\\)`), env)
  assert.equal((await neap.call('GET /projects', {})).projects.length, 1)
  await neap.stop({ keep: true })

  using api = await occupy(Number(new URL(api_url).port))
  using proxy = await occupy(proxy_port)
  const again = await startNeap({ dataDir })
  const chosen = [Number(new URL(again.ready.api_url).port), again.ready.proxy_port]
  assert.ok(!chosen.includes(api.port) && !chosen.includes(proxy.port))
  assert.match(again.stderr(), new RegExp(`Port ${api.port} is taken, so the API uses ${chosen[0]}.`))
  assert.match(again.stderr(), new RegExp(`Port ${proxy.port} is taken, so the proxy uses ${chosen[1]}.`))
  await again.stop({ keep: true })

  const file = join(dataDir, 'secret.key')
  const key = readFileSync(file)
  chmodSync(file, 0o644)
  await refused(up, /secret.key is open to others: run chmod 600/, env)
  chmodSync(file, 0o600)
  writeFileSync(file, key.subarray(10))
  await refused(up, /secret.key is damaged .*: put it back from a backup/, env)
  writeFileSync(file, Buffer.alloc(32, 1))
  await refused(up, /secret.key is not the one that .* was made with: put that one back/, env)
  assert.deepEqual(processesOf(dataDir), [])
  writeFileSync(join(dataDir, 'state.json'), '{')
  await refused(up, /state.json cannot be read .*mend or remove it/, env)
  rmSync(join(dataDir, 'state.json'))
  writeFileSync(file, key)

  const child = spawnNeap(['up', '--json', ...ports], envOf(dataDir))
  let stdout = ''
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  await until('a line', () => stdout.includes('\n'))
  child.kill('SIGINT')
  await once(child, 'close')
  assert.match(stdout, /^\{[^\n]*\}\n$/)
})
