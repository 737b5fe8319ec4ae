import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, request } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test, type TestContext } from 'node:test'
import { createServer as createTlsServer } from 'node:https'
import { fileURLToPath } from 'node:url'
import { type Neap, type Ran, run, startNeap } from '../neap.ts'
import { peer, withoutPeers } from './peers.ts'

/*
 * The community's Terraform provider kislerdm/neon, unmodified, with our configuration. No package registry has it: put
 * `tofu` (or terraform under that name) and `terraform-provider-neon` into .peers/bin to run this. Its API address is a
 * constant, so HTTPS_PROXY redirects it to Neap: the proxy here presents a certificate for that name.
 */

const skip =
  withoutPeers('bin/tofu', 'bin/terraform-provider-neon') &&
  'no registry offers terraform-provider-neon: see the head of this file'
const CONFIGURATION = fileURLToPath(new URL('terraform', import.meta.url))
const CONSOLE = 'console.neon.tech'

interface State {
  readonly values: { root_module: { resources: { address: string; values: Record<string, string> }[] } }
}

let neap: Neap

before(async () => {
  if (!skip) neap = await startNeap({ args: ['--no-project'] })
})

after(() => neap?.stop())

/**
 * A proxy on loopback that forwards requests for the hosted API to Neap. Returns its address and its certificate's
 * file.
 */
async function hostedApi(t: TestContext, home: string): Promise<{ proxy: string; certificate: string }> {
  const [key, certificate] = [join(home, 'key.pem'), join(home, 'certificate.pem')]
  const name = ['-subj', `/CN=${CONSOLE}`, '-addext', `subjectAltName=DNS:${CONSOLE}`]
  const made = ['req', '-x509', '-newkey', 'rsa:2048', '-nodes', '-days', '1', '-keyout', key, '-out', certificate]
  assert.equal((await run('openssl', [...made, ...name])).code, 0)
  const { hostname, port } = new URL(neap.ready.api_url)
  const api = createTlsServer({ key: readFileSync(key), cert: readFileSync(certificate) }, (asked, answer) => {
    const { method, url: path, headers } = asked
    const passed = request({ hostname, port, method, path, headers }, (given) => {
      answer.writeHead(given.statusCode ?? 502, given.headers)
      given.pipe(answer)
    })
    asked.pipe(passed)
  })
  const proxy = createServer((_, answer) => answer.writeHead(403).end())
  proxy.on('connect', ({ url }, socket: Socket) => {
    if (url !== `${CONSOLE}:443`) return socket.end('HTTP/1.1 403 Forbidden\r\n\r\n')
    socket.write('HTTP/1.1 200 OK\r\n\r\n')
    return api.emit('connection', socket)
  })
  await new Promise<void>((resolve) => proxy.listen(0, '127.0.0.1', resolve))
  t.after(() => {
    proxy.close()
    proxy.closeAllConnections()
    api.closeAllConnections()
  })
  return { proxy: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`, certificate }
}

test('a configuration is created, changed in place, planned as empty, imported and destroyed', { skip }, async (t) => {
  const home = mkdtempSync(join(tmpdir(), 'neap-terraform-'))
  t.after(() => rmSync(home, { recursive: true }))
  const { proxy, certificate } = await hostedApi(t, home)
  cpSync(CONFIGURATION, home, { recursive: true })
  const overrides = `provider_installation { dev_overrides { "kislerdm/neon" = "${peer('bin')}" } }`
  writeFileSync(join(home, 'tofu.rc'), overrides)
  const { organizations } = await neap.call('GET /users/me/organizations', {})
  const env = {
    PATH: process.env['PATH'],
    HOME: home,
    TF_CLI_CONFIG_FILE: join(home, 'tofu.rc'),
    TF_VAR_org_id: organizations[0]?.id ?? '',
    NEON_API_KEY: neap.ready.api_key ?? '',
    HTTPS_PROXY: proxy,
    SSL_CERT_FILE: certificate,
  }
  const tofu = (...args: string[]): Promise<Ran> => run(peer('bin/tofu'), [`-chdir=${home}`, ...args], env)
  async function succeeds(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await tofu(...args, '-no-color')
    assert.equal(code, 0, `${args.join(' ')}: ${stdout}${stderr}`)
    return stdout
  }
  /** `plan` exits with code 2 when there are differences. */
  const planIsEmpty = async (...args: string[]) => succeeds('plan', '-detailed-exitcode', ...args)

  assert.match(await succeeds('apply', '-auto-approve'), /6 added, 0 changed, 0 destroyed/)
  await planIsEmpty()
  const changes = ['-var', 'max_cu=2', '-var', 'retention=3600']
  assert.match(await succeeds('apply', '-auto-approve', ...changes), /0 added, 2 changed, 0 destroyed/)
  await planIsEmpty(...changes)

  const { resources } = (JSON.parse(await succeeds('show', '-json')) as State).values.root_module
  const {
    project_id = '',
    branch_id = '',
    id = '',
  } = resources.find(({ address }) => address === 'neon_endpoint.dev')?.values ?? {}
  const imported = {
    'neon_project.shop': project_id,
    'neon_branch.dev': `${project_id}/${branch_id}`,
    'neon_endpoint.dev': `${project_id}/${id}`,
    'neon_role.clerk': `${project_id}/${branch_id}/clerk`,
    'neon_database.orders': `${project_id}/${branch_id}/orders`,
  }
  for (const [address, name] of Object.entries(imported)) {
    await succeeds('state', 'rm', address)
    await succeeds('import', ...changes, address, name)
  }
  await planIsEmpty(...changes)
  assert.match(await succeeds('destroy', '-auto-approve', ...changes), /6 destroyed/)
  assert.deepEqual((await neap.call('GET /projects', {})).projects, [])
})
