import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, chown, copyFile, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import pg from 'pg'
import { installBinaries } from '../src/host/binaries.ts'
import { makeTemplate } from '../src/storage/template.ts'
import { scramVerifier } from '../src/postgres/scram_verifier.ts'
import { newPassword } from '../src/secrets/generated.ts'
import { loadOrCreateSecrets } from '../src/secrets/secrets.ts'
import { TEMPLATE } from '../src/secrets/stores.ts'
import { freePort } from './free_port.ts'
import { ensureCertificates } from '../src/tls/certificates.ts'

// One real Postgres that presents our certificate and knows a role only by our verifier.
const names = { region: 'shore', domain: 'example.test' }
const host = 'ep-calm-bay-1.shore.example.test'
const password = newPassword()
let dir: string
let port: number
let caFile: string
let stop: () => Promise<void>

before(async () => {
  dir = await mkdtemp(join(tmpdir(), 'neap-accepts-'))
  await chmod(dir, 0o711)
  const secrets = await loadOrCreateSecrets(join(dir, 'master.key'))
  const bin = await installBinaries(join(dir, 'pg'), 18)
  await makeTemplate(join(dir, 'template'), 18, bin, secrets.stores)
  const pgdata = join(dir, 'template', 'pgdata')
  // Postgres refuses to run as root, which owns the template in that case.
  const { uid, gid } = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : await stat(pgdata)
  await promisify(execFile)('chown', ['-R', `${uid}:${gid}`, dirname(pgdata)])
  const files = await ensureCertificates(join(dir, 'tls'), names)
  caFile = files.caFile
  for (const file of [files.certFile, files.keyFile]) {
    await copyFile(file, `${file}.pg`)
    await chown(`${file}.pg`, uid, gid)
  }
  await chmod(join(dir, 'tls'), 0o711)
  await writeFile(join(dir, 'hba.conf'), 'hostssl all all 127.0.0.1/32 scram-sha-256\n')
  port = await freePort()
  const settings = {
    port,
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    fsync: 'off',
    hba_file: join(dir, 'hba.conf'),
    ssl: 'on',
    ssl_cert_file: `${files.certFile}.pg`,
    ssl_key_file: `${files.keyFile}.pg`,
  }
  const args = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const owner = process.getuid?.() === 0 ? { uid, gid } : {}
  const server = spawn(join(bin, 'postgres'), ['-D', pgdata, ...args], {
    ...owner,
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(server, 'exit')
  stop = async () => {
    server.kill('SIGINT')
    await ended
  }
  let said = ''
  for await (const line of createInterface(server.stderr)) {
    said += `${line}\n`
    if (line.includes('ready to accept connections')) break
  }
  server.stderr.resume()
  assert.match(said, /ready to accept connections/, said)
  await asRole('neap_admin', secrets.stores.admin(TEMPLATE)[0], async (client) => {
    await client.query(`create role sailor login password '${await scramVerifier(password)}'`)
  })
})

after(async () => {
  await stop?.()
  await rm(dir, { recursive: true, force: true })
})

test('Postgres stores the verifier unchanged and accepts its password', async () => {
  const { rows } = await asRole('sailor', password, (client) => client.query('select current_user as name'))
  assert.deepEqual(rows, [{ name: 'sailor' }])
  await assert.rejects(
    asRole('sailor', newPassword(), (client) => client.query('select 1')),
    { code: '28P01' },
  )
})

test('psql connects with verify-full and channel binding, and is refused another host name', async (t) => {
  const psql = (name: string) => {
    const target = `hostaddr=127.0.0.1 port=${port} dbname=postgres user=sailor host=${name}`
    const options = `sslmode=verify-full sslrootcert=${caFile} channel_binding=require`
    const env = { PATH: process.env['PATH'], PGPASSWORD: password }
    return promisify(execFile)('psql', ['-XAtc', 'select 2 + 2', `${target} ${options}`], { env })
  }
  try {
    assert.equal((await psql(host)).stdout, '4\n')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return t.skip('psql is not installed')
    throw error
  }
  assert.equal((await psql('localhost')).stdout, '4\n')
  await assert.rejects(psql('ep-calm-bay-1.cliff.example.test'), /certificate/)
})

async function asRole<T>(user: string, secret: string, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const ssl = { ca: await readFile(caFile, 'utf8'), servername: host }
  const client = new pg.Client({ host: '127.0.0.1', port, user, password: secret, database: 'postgres', ssl })
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}
