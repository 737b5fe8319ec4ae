import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test as nodeTest } from 'node:test'
import { fileURLToPath } from 'node:url'
import { NEAP, type Neap, type Ran, run, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'
import { until } from '../processes.ts'
import { type Machines, twoMachines } from '../two_machines.ts'

/* Clients on another machine than Neap: by name, by certificate, directly and through forwarders. */

const NOT_ROOT = process.getuid?.() !== 0 && 'only root makes network namespaces'
const [REGION, DOMAIN] = ['bay', 'neap.test']
const [HAPROXY_PORT, NGINX_PORT, NGINX_API_PORT] = [6432, 6433, 8443]
const NEONCTL = fileURLToPath(import.meta.resolve('neonctl/dist/cli.js'))

const test = (name: string, body: () => Promise<void>): void =>
  void nodeTest(name, { skip: NOT_ROOT, timeout: 120_000 }, body)

let machines: Machines
let neap: Neap
let place: Place
const forwarders: ChildProcess[] = []
const dir = mkdtempSync(join(tmpdir(), 'neap-forwarders-'))

before(async () => {
  if (NOT_ROOT) return
  machines = twoMachines()
  neap = await startNeap({
    through: machines.onServer,
    args: ['--listen', `${machines.server},${machines.serverIpv6}`],
    env: {
      // The default: the namespace has no other user of that port.
      NEAP_EXTRA_PROXY_PORT: '',
      NEAP_REGION: REGION,
      NEAP_DOMAIN: DOMAIN,
      NEAP_PUBLIC_HOST: `${REGION}.${DOMAIN}`,
      NEAP_PROXY_PROTOCOL_FROM: '127.0.0.0/8',
      NEAP_FORWARDED_FOR_FROM: `${machines.server}/32`,
    },
  })
  place = await firstPlace(neap)
  const endpoint = place.endpoint_id
  machines.name(
    [endpoint, `${endpoint}-pooler`].map((label) => `${label}.${REGION}.${DOMAIN}`).concat(`${REGION}.${DOMAIN}`),
  )
})

after(async () => {
  // With SIGTERM nginx also ends its workers.
  for (const each of forwarders) if (each.kill()) await once(each, 'exit')
  await neap?.stop()
  machines?.remove()
  rmSync(dir, { recursive: true, force: true })
})

const clientEnv = (more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv => ({
  PATH: process.env['PATH'],
  HOME: dir,
  NODE_EXTRA_CA_CERTS: neap.ready.ca_file,
  ...more,
})

const verified = (uri: string): string =>
  uri.replace('sslmode=require', `sslmode=verify-full&sslrootcert=${encodeURIComponent(neap.ready.ca_file)}`)

const psql = (uri: string, sql = 'select 1', env: NodeJS.ProcessEnv = {}): Promise<Ran> =>
  machines.run('psql', [verified(uri), '-AtX', '-c', sql], clientEnv(env))

const said = ({ code, stdout, stderr }: Ran): string => {
  assert.equal(code, 0, stderr)
  return stdout.trim()
}

/** Runs a Node script on the clients' machine and returns its output, parsed as JSON. */
async function script<T>(code: string, env: NodeJS.ProcessEnv = {}): Promise<T> {
  const inProject = fileURLToPath(new URL('../..', import.meta.url))
  const file = join(inProject, `.client-${process.pid}.mjs`)
  writeFileSync(file, code)
  try {
    return JSON.parse(said(await machines.run(process.execPath, [file], clientEnv(env)))) as T
  } finally {
    rmSync(file)
  }
}

test('psql connects with the printed strings and verifies the server by its name', async () => {
  const host = `${place.endpoint_id}.${REGION}.${DOMAIN}`
  assert.ok(place.uri.includes(`@${host}:${neap.ready.proxy_port}/`), place.uri)
  assert.equal(said(await psql(place.uri)), '1')
})

test('clients connect by address when no name resolves, by IPv6 too', async () => {
  const host = `${place.endpoint_id}.${REGION}.${DOMAIN}`
  for (const address of [machines.server, `[${machines.serverIpv6}]`]) {
    const uri = `${place.uri.replace(`@${host}`, `@${address}`)}&options=endpoint%3D${host}`
    assert.equal(said(await psql(uri, 'select inet_client_addr() is null')), 't', uri)
    const pooled = uri.replace(`%3D${host}`, `%3D${host.replace('.', '-pooler.')}`)
    assert.equal(said(await psql(pooled)), '1', pooled)
  }
  const { port } = new URL(neap.ready.api_url)
  const url = `https://[${machines.serverIpv6}]:${port}/healthz`
  assert.match(said(await machines.run('curl', ['-sS', '--cacert', neap.ready.ca_file, url])), /ok/)
})

test('clients connect by the standard port too', async () => {
  assert.equal(neap.ready.extra_proxy_port, 5432)
  assert.equal(said(await psql(place.uri.replace(`:${neap.ready.proxy_port}/`, '/'))), '1')
  const env = clientEnv({ CI: 'true' })
  const fixed = [
    '--api-host',
    neap.ready.api_url,
    '--api-key',
    neap.ready.api_key ?? '',
    '--no-analytics',
    '--config-dir',
    dir,
  ]
  const [project, name] = [place.project_id, ['main']]
  const args = [NEONCTL, 'connection-string', ...name, '--project-id', project, ...fixed]
  for (const pooled of [[], ['--pooled']]) {
    const uri = said(await machines.run(process.execPath, [...args, ...pooled], env))
    assert.equal(said(await psql(uri)), '1', uri)
  }
})

test('the API requires TLS from other machines', async () => {
  assert.match(neap.ready.api_url, /^https:\/\/bay\.neap\.test:\d+\/api\/v2$/)
  const auth = ['-H', `Authorization: Bearer ${neap.ready.api_key}`]
  const listed = await machines.run('curl', [
    '-sS',
    '--cacert',
    neap.ready.ca_file,
    ...auth,
    `${neap.ready.api_url}/projects`,
  ])
  assert.equal((JSON.parse(said(listed)) as { projects: unknown[] }).projects.length, 1)
  const plain = await machines.run('curl', ['-sS', ...auth, `${neap.ready.api_url}/projects`.replace('https', 'http')])
  assert.match(said(plain), /ask by https/)
  const unverified = await machines.run('curl', ['-sS', `${neap.ready.api_url}/projects`])
  assert.notEqual(unverified.code, 0)
  const key = neap.ready.api_key ?? ''
  const cli = await machines.run(
    NEAP,
    ['projects', 'list', '--json'],
    clientEnv({ NEAP_API_URL: neap.ready.api_url, NEAP_API_KEY: key }),
  )
  assert.match(said(cli), new RegExp(place.project_id))
})

test('connections to the API without TLS are closed and leave no descriptor', async () => {
  const api = neap.part('api')
  const descriptors = () => readdirSync(`/proc/${api}/fd`).length
  const few = descriptors()
  const { hostname, port } = new URL(neap.ready.api_url)
  const program = `
    import { connect } from 'node:net'
    const where = { host: process.env.HOST, port: process.env.PORT, allowHalfOpen: true }
    const sockets = Array.from({ length: 60 }, () => connect(where))
    await Promise.all(sockets.map((socket, number) => new Promise((resolve) => {
      socket.on('error', () => {}).once('data', () => {
        socket.write('x'.repeat(2000))
        if (number % 2) socket.destroy()
        resolve()
      })
      socket.write('GET / HTTP/1.1\\r\\n')
    })))
    // Stay alive until killed.
    setInterval(() => {}, 60_000)`
  const [ip = '', ...inClient] = machines.onClient
  const client = spawn(ip, [...inClient, process.execPath, '--input-type=module', '-e', program], {
    env: { HOST: hostname, PORT: port },
    stdio: 'ignore',
  })
  const ended = once(client, 'exit')
  try {
    await until('they are there', async () => descriptors() >= few + 20)
    await until('they are gone, though half of them stay', async () => descriptors() <= few + 5)
    assert.equal(client.exitCode, null)
  } finally {
    client.kill()
    await ended
  }
})

test('the doctor reports the checks that pass and fail', async () => {
  const examined = ({ code, stdout, stderr }: Ran): [number, Record<string, string>] => {
    assert.equal(stderr, '')
    const { findings } = JSON.parse(stdout) as { findings: { what: string; level: string }[] }
    return [code, Object.fromEntries(findings.map(({ what, level }) => [what, level]))]
  }
  const env = { PATH: process.env['PATH'], HOME: dir }
  const doctor = async (...args: string[]) => examined(await machines.run(NEAP, ['doctor', ...args, '--json'], env))
  const { origin } = new URL(neap.ready.api_url)
  const ca = ['--ca', neap.ready.ca_file]
  const met = { name: 'ok', port: 'ok', TLS: 'ok', certificate: 'ok', authority: 'ok', validity: 'ok' }
  const asked = { API: 'ok', version: 'ok', clock: 'ok' }
  const host = `${place.endpoint_id}.${REGION}.${DOMAIN}`
  assert.deepEqual(await doctor(host, ...ca, '--api-url', origin), [0, { ...met, ...asked }])
  assert.deepEqual(await doctor(host), [0, { ...met, authority: 'note' }])
  assert.deepEqual(await doctor('other.neap.test'), [1, { name: 'fails' }])
  assert.deepEqual(await doctor(machines.server, '--port', '1'), [1, { name: 'ok', port: 'fails' }])
  const [ip = '', ...inServer] = machines.onServer
  const here = await run(ip, [...inServer, NEAP, 'doctor', '--json', '--data-dir', neap.ready.data_dir], env)
  const [code, { limits: _, ...found }] = examined(here)
  assert.deepEqual([code, found], [0, { ...met, ...asked, reach: 'ok' }])
  const { port } = new URL(origin)
  assert.deepEqual(await doctor(machines.server, '--port', port), [1, { name: 'ok', port: 'ok', TLS: 'fails' }])
  const silent = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const closing = ['--port', String((silent.address() as AddressInfo).port), '--json']
  assert.deepEqual(examined(await run(NEAP, ['doctor', '127.0.0.1', ...closing], env)), [
    1,
    { name: 'ok', port: 'ok', TLS: 'fails' },
  ])
  silent.close()
  const empty = await run(NEAP, ['doctor', ''], env)
  assert.deepEqual([empty.code, empty.stderr.startsWith('neap: The host is empty')], [1, true])
  const noCa = await run(NEAP, ['doctor', host, '--ca', '/etc/hosts'], env)
  assert.deepEqual([noCa.code, /holds no certificates/.test(noCa.stderr)], [1, true])
  const refused = await machines.run(NEAP, ['doctor', host, '--port', 'x'], clientEnv())
  assert.deepEqual([refused.code, refused.stderr.trim()], [1, "neap: --port is 'x': it takes a port from 1 to 65535."])
})

test('an SDK and the serverless driver work from another machine', async () => {
  const env = {
    API: neap.ready.api_url,
    KEY: neap.ready.api_key ?? '',
    URI: place.uri,
    PORT: String(neap.ready.proxy_port),
  }
  const found = await script<{ projects: number; http: unknown; socket: unknown }>(
    `
    import { createApiClient } from '@neondatabase/api-client'
    import { neon, neonConfig, Client } from '@neondatabase/serverless'
    const { API, KEY, URI } = process.env
    const { data } = await createApiClient({ apiKey: KEY, baseURL: API }).listProjects({})
    neonConfig.fetchEndpoint = (host, port) => \`https://\${host}:\${port}/sql\`
    neonConfig.wsProxy = (host, port) => \`\${host}:\${port}/v2\`
    const [http] = await neon(URI)\`select 1 as n\`
    const client = new Client(URI)
    await client.connect()
    const { rows: [socket] } = await client.query('select 2 as n')
    await client.end()
    console.log(JSON.stringify({ projects: data.projects.length, http, socket }))`,
    env,
  )
  assert.deepEqual(found, { projects: 1, http: { n: 1 }, socket: { n: 2 } })
})

test('an allow list applies to the client behind haproxy and nginx too', async () => {
  const [allowed, other] = machines.clients
  startForwarders()
  const through = (port: number): string => place.uri.replace(`:${neap.ready.proxy_port}/`, `:${port}/`)
  // The route selects the client's source address.
  const from = async (address: string, port: number): Promise<Ran> => {
    await machines.run('ip', [
      'route',
      'replace',
      `${machines.server}/32`,
      'dev',
      `neap${process.pid % 100_000}c`,
      'src',
      address,
    ])
    return psql(through(port))
  }
  const body = { project: { settings: { allowed_ips: { ips: [allowed] } } } }
  const { operations } = await neap.call('PATCH /projects/:project_id', { params: place, body })
  await neap.ended(operations)
  for (const port of [neap.ready.proxy_port, HAPROXY_PORT, NGINX_PORT]) {
    await until(`port ${port} answers`, async () => (await from(allowed, port)).code === 0)
    const refused = await from(other, port)
    assert.match(
      refused.stderr,
      new RegExp(`${other.replaceAll('.', '\\.')} is not allowed to connect`),
      `by port ${port}`,
    )
  }
  await from(allowed, neap.ready.proxy_port)
})

test('the audit list has the client address from a trusted HTTP proxy only', async () => {
  const auth = ['-H', `Authorization: Bearer ${neap.ready.api_key}`, '-H', 'Content-Type: application/json']
  const forged = ['-H', 'X-Forwarded-For: 192.0.2.66']
  const make = (url: string, name: string): Promise<Ran> =>
    machines.run('curl', ['-sSk', ...auth, ...forged, '-d', JSON.stringify({ project: { name } }), `${url}/projects`])
  said(await make(neap.ready.api_url, 'direct'))
  said(await make(`https://${REGION}.${DOMAIN}:${NGINX_API_PORT}/api/v2`, 'by nginx'))
  const { audit } = await neap.call('GET /audit', { query: { limit: 2 } })
  assert.deepEqual(
    audit.map(({ address }) => address),
    [machines.clients[0], machines.clients[0]],
  )
})

/** On Neap's machine: haproxy (PROXY protocol, version 2) and nginx (version 1, and HTTP with X-Forwarded-For). */
function startForwarders(): void {
  const [postgres, api] = [`${machines.server}:${neap.ready.proxy_port}`, new URL(neap.ready.api_url).port]
  const pem = ['server.crt', 'server.key'].map((name) => join(neap.ready.data_dir, 'tls', name))
  const haproxy = join(dir, 'haproxy.cfg')
  writeFileSync(
    haproxy,
    `
global
  maxconn 100
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen postgres
  bind ${machines.server}:${HAPROXY_PORT}
  server neap ${postgres} send-proxy-v2 source 127.0.0.1
`,
  )
  const nginx = join(dir, 'nginx.conf')
  writeFileSync(
    nginx,
    `
daemon off;
pid ${dir}/nginx.pid;
error_log stderr;
load_module modules/ngx_stream_module.so;
events {}
stream {
  server { listen ${machines.server}:${NGINX_PORT}; proxy_pass ${postgres}; proxy_protocol on; proxy_bind 127.0.0.1; }
}
http {
  access_log off;
  server {
    listen ${machines.server}:${NGINX_API_PORT} ssl;
    ssl_certificate ${pem[0]};
    ssl_certificate_key ${pem[1]};
    location / {
      proxy_pass https://${machines.server}:${api};
      proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
    }
  }
}
`,
  )
  const [program = 'ip', ...rest] = machines.onServer
  for (const command of [
    ['haproxy', '-db', '-f', haproxy],
    ['nginx', '-c', nginx],
  ])
    forwarders.push(spawn(program, [...rest, ...command], { stdio: ['ignore', 'ignore', 'inherit'] }))
}
