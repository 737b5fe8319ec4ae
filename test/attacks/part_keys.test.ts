import assert from 'node:assert/strict'
import { readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import pg from 'pg'
import { CATALOG_PROXY, type EmbeddedLogin, loginConfig } from '../../src/catalog/embedded.ts'
import { partKeysFile } from '../../src/secrets/part_keys.ts'
import { loadPartSecrets, type Secrets } from '../../src/secrets/secrets.ts'
import { catalogQuery } from '../admin.ts'
import { query } from '../clients.ts'
import { type Neap, startNeap } from '../neap.ts'
import { firstPlace, type Place } from '../project.ts'

/* A compromised part of Neap: the powers of its keys and its catalog login. */

let neap: Neap
let place: Place
const keyFile = (part: 'api' | 'worker' | 'proxy'): string => partKeysFile(neap.ready.data_dir, part)

before(async () => {
  neap = await startNeap()
  place = await firstPlace(neap)
  await query(neap, place.uri, 'select 1')
})
after(() => neap?.stop())

test('each part has a file with its own keys, which only the owner can read', () => {
  for (const part of ['api', 'worker', 'proxy'] as const) {
    const environment = readFileSync(`/proc/${neap.part(part)}/environ`, 'utf8')
    assert.ok(environment.includes(`NEAP_SECRET_FILE=${keyFile(part)}\0`))
    assert.equal(statSync(keyFile(part)).mode & 0o777, 0o600)
  }
  assert.equal(statSync(join(neap.ready.data_dir, 'keys')).mode & 0o777, 0o700)
})

async function sealedPassword(): Promise<Buffer> {
  const [role] = await catalogQuery<{ password: Buffer }>(neap, 'select password from role where password is not null')
  return role?.password as Buffer
}

test('the keys of a proxy decrypt no password, hash no API key and open no superuser session', async () => {
  const { decrypt, encrypt, hashApiKey, stores } = await loadPartSecrets(keyFile('proxy'), 'proxy')
  const sealed = await sealedPassword()
  assert.throws(() => decrypt('password', sealed, 'role neondb_owner'))
  assert.throws(() => encrypt('password', 'text', 'role neondb_owner'), /has no key/)
  assert.throws(() => hashApiKey('neap_key'), /has no key/)
  assert.throws(() => stores.admin(place.branch_id), /has no key/)
  assert.ok(stores.loginReader(place.branch_id)[0].length > 40)
})

test('the keys of a worker decrypt no password and hash no API key', async () => {
  const worker: Secrets = await loadPartSecrets(keyFile('worker'), 'worker')
  const sealed = await sealedPassword()
  assert.throws(() => worker.decrypt('password', sealed, 'role neondb_owner'))
  assert.throws(() => worker.hashApiKey('neap_key'), /has no key/)
  assert.throws(() => worker.mockSaltKey(), /has no key/)
  assert.equal(worker.decrypt('webhook', worker.encrypt('webhook', 'text', 'webhook 1'), 'webhook 1'), 'text')
})

test('a part refuses the keys of another part', async () => {
  await assert.rejects(loadPartSecrets(keyFile('proxy'), 'api'), /keys of neap proxy/)
  await assert.rejects(loadPartSecrets(keyFile('api'), 'proxy'), /keys of neap api/)
})

const DENIED = {
  'read passwords that can be decrypted': 'select password from role',
  'read API keys': 'select * from api_key',
  'make an API key': `insert into api_key (account_id, name, hash, scope)
                        select account_id, 'mine', 'x', 'admin' from project limit 1`,
  'read the secrets of webhooks': 'select secret from webhook',
  'read replies that are kept': 'select reply from idempotency_key',
  'read the audit list': 'select * from audit',
  'change what verifies a role': `update role set verifier = 'x'`,
  'lead clients to another server': `update compute set address = '/tmp'`,
  'lead clients to another compute': `update endpoint set compute_id = 'other'`,
  'enable or move an endpoint': 'update endpoint set disabled = false',
  'change a project': `update project set settings = '{}'`,
  'delete operations': 'delete from operation',
  'take over operations': `update operation set status = 'finished'`,
  'make a function': 'create function public.f() returns int language sql as $$ select 1 $$',
  'run a program': `copy (select 1) to program 'true'`,
  'read a file': `select pg_read_file('/etc/passwd')`,
  'read who logs in at the catalog': 'select * from pg_authid',
  'become another role': 'set role neap_admin',
}

async function asProxy<T>(work: (client: pg.Client) => Promise<T>): Promise<T> {
  const secrets = await loadPartSecrets(keyFile('proxy'), 'proxy')
  const login: EmbeddedLogin = {
    runtimeDir: join(neap.ready.data_dir, 'run'),
    user: CATALOG_PROXY,
    passwords: secrets.catalogPasswords,
  }
  const client = new pg.Client(loginConfig(login, () => secrets.catalogPasswords()[0]))
  await client.connect()
  try {
    return await work(client)
  } finally {
    await client.end()
  }
}

test('a proxy logs in at the catalog as a role with only the privileges that proxies need', () =>
  asProxy(async (client) => {
    const users = await catalogQuery<{ usename: string }>(
      neap,
      `select distinct usename from pg_stat_activity where application_name like 'neap keys proxy %'`,
    )
    assert.deepEqual(users, [{ usename: CATALOG_PROXY }])
    for (const [what, statement] of Object.entries(DENIED))
      await assert.rejects(client.query(statement), { code: '42501' }, `a proxy could ${what}`)
    assert.ok((await client.query('select verifier from role')).rows.length > 0)
  }))

test('a proxy can insert start_compute and no other operation', () =>
  asProxy(async (client) => {
    const ask = (action: string) =>
      client.query(
        `insert into operation
           (id, account_id, project_id, branch_id, endpoint_id, seq, action, step, excludes, shares,
            deadline_seconds, created_at)
         select gen_random_uuid(), account_id, project_id, branch_id, id, 1000000, $2, 'x', '{}', '{}', 60,
                clock_timestamp()
           from endpoint where id = $1`,
        [place.endpoint_id, action],
      )
    await client.query('begin')
    await ask('start_compute')
    await client.query('rollback')
    for (const action of ['delete_branch', 'suspend_compute', 'apply_config'])
      await assert.rejects(ask(action), /row-level security/)
  }))
