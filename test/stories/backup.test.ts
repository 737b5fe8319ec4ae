import assert from 'node:assert/strict'
import {
  cpSync,
  existsSync,
  globSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { after, before, test } from 'node:test'
import { removeAbandoned } from '../../src/backup/abandoned.ts'
import { findRepository } from '../../src/backup/repository.ts'
import { superuser } from '../admin.ts'
import { peer } from '../clients/peers.ts'
import { query } from '../clients.ts'
import { envOf, leaveNothing, type Neap, neapRun, newDataDir, startNeap } from '../neap.ts'
import { kill, processesOf, until } from '../processes.ts'
import { branchOff, endpointOf, firstPlace, newProject, type Place, suspend } from '../project.ts'
import { type S3, startS3 } from './s3.ts'

/* Backups in a repository elsewhere, and a machine that is lost. */

const PROGRAM = { NEAP_PGBACKREST: peer('pgbackrest/pgbackrest') }

let neap: Neap
let main: Place
/** A branch that sleeps at first. */
let still: Place
let elsewhere: string
let repository: string
let passphrase: string
let s3: S3

before(async () => {
  elsewhere = mkdtempSync(join(tmpdir(), 'neap-elsewhere-'))
  repository = join(elsewhere, 'repository')
  neap = await startNeap({ env: PROGRAM })
  main = await firstPlace(neap)
  s3 = await startS3(join(elsewhere, 's3'))
})

after(async () => {
  await neap?.stop()
  await s3?.stop()
  rmSync(elsewhere, { recursive: true, force: true })
})

const command = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
  neapRun(args, envOf(neap.ready.data_dir, { ...PROGRAM, ...env }))

interface Status {
  readonly branch_id: string
  readonly branch_name: string
  readonly made_at: string | null
  readonly pushed_at: string | null
  readonly is_behind: boolean
  readonly error: string | null
}

async function statusOf({ branch_id }: Place): Promise<Status> {
  const { stdout, stderr } = await command(['backup', 'status', '--json'])
  const { branches } = JSON.parse(stdout || assert.fail(stderr)) as { branches: Status[] }
  return branches.find((each) => each.branch_id === branch_id) ?? assert.fail(`${branch_id} is not listed`)
}

/** Waits until all that there is now is in the repository. */
async function saved(place: Place): Promise<Status> {
  const ran = await command(['backup', 'run'])
  assert.equal(ran.code, 0, ran.stderr)
  return statusOf(place)
}

const HASH = `select count(*)::int as count, md5(string_agg(body, '' order by id)) as hash from kept`

async function fill(place: Place, rows: number): Promise<unknown> {
  await query(neap, place.uri, `create table if not exists kept (id bigserial, body text not null)`)
  await query(neap, place.uri, `insert into kept (body) select md5(g::text) from generate_series(1, ${rows}) g`)
  return query(neap, place.uri, HASH)
}

/** Ends all processes with SIGKILL, and takes the data directory away. */
async function loseMachine(): Promise<void> {
  await until('all processes have ended', async () => {
    const left = processesOf(neap.ready.data_dir).map(({ pid }) => pid)
    await kill(...left)
    return left.length === 0
  })
  rmSync(neap.ready.data_dir, { recursive: true, force: true })
}

async function restore(location: string, options: { env?: NodeJS.ProcessEnv; args?: readonly string[] } = {}) {
  const dataDir = newDataDir()
  const env = envOf(dataDir, { ...PROGRAM, NEAP_BACKUP_PASSPHRASE: passphrase, ...options.env })
  const ran = await neapRun(['restore', '--from', location, '--json', ...(options.args ?? [])], env)
  return { dataDir, env, ...ran }
}

test('a repository that cannot be used is refused, and nothing is begun', async () => {
  for (const [location, reason] of [
    ['here', /names no repository.*directory.*bucket.*SFTP/s],
    ['s3://bucket/path', /AWS_ACCESS_KEY_ID/],
    ['sftp://host/path', /--sftp-key/],
    ['/dev/null/there', /Not a directory/],
  ] as const) {
    const { code, stderr } = await command(['backup', 'init', location])
    assert.equal(code, 1, location)
    assert.match(stderr, reason)
  }
  const absent = await command(['backup', 'init', repository], { NEAP_PGBACKREST: '/nowhere/pgbackrest' })
  assert.match(absent.stderr, /install pgBackRest 2\.55 or newer/)
  assert.match((await command(['backup', 'status'])).stderr, /No backups are made: npx neap backup init/)
})

test('a running branch and a sleeping one are backed up, and the sleeping one is not woken', async () => {
  still = await branchOff(neap, main)
  const hash = await fill(still, 2_000)
  await suspend(neap, still)
  const init = await command(['backup', 'init', repository])
  assert.equal(init.code, 0, init.stderr)
  passphrase = init.stdout.trim()
  await fill(main, 5_000)
  await saved(main)
  const status = await until('the sleeping branch is in the repository', async () => {
    const found = await statusOf(still)
    return !found.is_behind && found
  })
  assert.equal(status.error, null)
  assert.equal((await endpointOf(neap, still)).current_state, 'idle')
  assert.deepEqual(await query(neap, still.uri, HASH), hash)
  await fill(main, 5_000)
  await saved(main)
  const { backups } = JSON.parse((await command(['backup', 'list', '--json'])).stdout) as {
    backups: { branch_id: string; kind: string; stored_bytes: number; bytes: number }[]
  }
  const own = backups.filter(({ branch_id }) => branch_id === main.branch_id)
  assert.deepEqual(
    own.map(({ kind }) => kind),
    ['full', 'incr'],
  )
  assert.ok((own[1]?.stored_bytes ?? 0) < (own[0]?.stored_bytes ?? 0), 'the second one has only what changed')
})

test('a directory that is not there is made by nobody, and backups go on once it is back', async () => {
  renameSync(repository, `${repository}.away`)
  await query(neap, main.uri, `insert into kept (body) values ('meanwhile')`)
  const failed = await until('a failure is told', async () => (await statusOf(main)).error ?? false)
  assert.match(failed, /is not there: it has no backups of this Neap/)
  const ran = await command(['backup', 'run'])
  assert.equal(ran.code, 1, ran.stdout)
  assert.match(ran.stderr, /is not there/)
  assert.equal(existsSync(repository), false)
  renameSync(`${repository}.away`, repository)
  assert.equal((await saved(main)).error, null)
})

test('no secret and no row is in the repository in clear, and a damaged file is found', async () => {
  await fill(main, 10)
  const admin = await superuser(neap, main)
  // Ends a segment: the history has a whole one.
  await admin.query('select pg_switch_wal()')
  await admin.end()
  const secret = readFileSync(join(neap.ready.data_dir, 'secret.key'))
  const files = globSync('**/*', { cwd: repository }).map((name) => join(repository, name))
  for (const file of files.filter((each) => statSync(each).isFile()))
    assert.ok(!readFileSync(file).includes(secret) && !readFileSync(file).includes('kept'), file)
  const good = await command(['backup', 'verify'])
  assert.equal(good.code, 0, good.stdout + good.stderr)
  assert.match(good.stdout, /^the catalog: good$/m)

  const only = (pattern: string): string => {
    const [found = assert.fail(`there is no ${pattern}`)] = globSync(pattern, { cwd: repository })
    return join(repository, found)
  }
  // Sleeping branches have the end of their WAL written no more.
  for (const each of [main, still]) await suspend(neap, each)
  await saved(main)
  const series = basename(only('neap/????????'))
  const { branch_name } = await statusOf(still)
  const stanza = `${series}-${main.branch_id}`
  const damages: readonly (readonly [name: string, file: string, report: RegExp, how: (file: string) => void])[] = [
    ['the keys', only(`neap/${series}/facts`), /facts .*does not open/, damage],
    ['the keys', only(`neap/${series}/files`), /files .*does not open/, damage],
    [branch_name, only(`neap/${series}/wal/${still.branch_id}`), /the end of its WAL is missing/, rmSync],
    ['the catalog', only(`archive/${series}-catalog/archive.info`), /archive\.info or its copy is damaged/, damage],
    ['main', only(`backup/${stanza}/*F/bundle/1`), /checksum invalid: 1/, damage],
    ['main', only(`backup/${stanza}/backup.info.copy`), /backup\.info or its copy is damaged/, damage],
    ['main', only(`backup/${stanza}/*F/backup.manifest`), /backup\.manifest or its copy is damaged/, damage],
    ['main', only(`archive/${stanza}/18-1/*/*`), /WAL is missing: [0-9A-F]{24}/, rmSync],
  ]
  const contents = damages.map(([, file]) => readFileSync(file))
  for (const [, file, , how] of damages) how(file)
  const bad = await command(['backup', 'verify', '--json'])
  for (const [index, [, file]] of damages.entries()) writeFileSync(file, contents[index] ?? '')
  assert.equal(bad.code, 1, bad.stderr)
  const { verified } = JSON.parse(bad.stdout) as { verified: { name: string; report: string }[] }
  for (const [name, , report] of damages)
    assert.match(verified.find((each) => each.name === name)?.report ?? '', report)
})

/** Changes bytes in the middle of a file. */
function damage(file: string): void {
  const content = readFileSync(file)
  const middle = content.length >> 1
  for (let at = middle; at < Math.min(middle + 32, content.length); at++) content[at] = (content[at] ?? 0) ^ 0xff
  writeFileSync(file, content)
}

test('a drill recovers and checks a backup beside its branch, and finds a damaged one', async () => {
  const [counted] = (await query(neap, main.uri, HASH)) as { count: number }[]
  await query(neap, main.uri, 'create database closed')
  await query(neap, main.uri, 'alter database closed allow_connections false')
  const [all] = await query<{ count: number }>(
    neap,
    main.uri,
    `select count(*)::int as count from pg_database where not datistemplate`,
  )
  await saved(main)
  const drill = await command(['backup', 'drill', main.branch_id, '--json'])
  assert.equal(drill.code, 0, drill.stdout + drill.stderr)
  const good = JSON.parse(drill.stdout) as Record<'row_count' | 'databases' | 'tables' | 'indexes', number>
  assert.equal(good.row_count, counted?.count)
  assert.equal(good.databases, all?.count, 'also those that allow no connections')
  await query(neap, main.uri, 'drop database closed')
  assert.ok(good.tables > 50 && good.indexes > 100, drill.stdout)
  const { project_id, branch_id } = main
  const params = { project_id, branch_id }
  const { drills } = await neap.call('GET /projects/:project_id/branches/:branch_id/backup', { params })
  assert.equal(drills[0]?.is_good, true)
  assert.equal(drills[0]?.rows, counted?.count)

  // A page whose line pointers are damaged before the backup, as by a failing disk.
  const [place] = await query<{ path: string }>(neap, main.uri, `select pg_relation_filepath('kept') as path`)
  await suspend(neap, main)
  const file = join(neap.ready.data_dir, 'branches', branch_id, 'pgdata', place?.path ?? '')
  const content = readFileSync(file)
  writeFileSync(file, Buffer.concat([content.subarray(0, 24), Buffer.alloc(64, 0x5a), content.subarray(88)]))
  await query(neap, main.uri, `create table more as select g from generate_series(1, 5000) g`)
  await saved(main)
  const bad = await command(['backup', 'drill', main.branch_id])
  assert.equal(bad.code, 1, bad.stdout)
  assert.match(bad.stdout, /neondb: public\.kept: invalid page/)
  await suspend(neap, main)
  writeFileSync(file, content)
  await query(neap, main.uri, 'drop table more')
  await saved(main)
})

test("one branch's backups are not taken for another's", async () => {
  const copy = join(elsewhere, 'mixed')
  const series = readFileSync(join(neap.ready.data_dir, 'backup/series'), 'utf8')
  const child = await branchOff(neap, main)
  await saved(child)
  cpSync(repository, copy, { recursive: true })
  const swap = (one: string, other: string) => {
    renameSync(one, `${one}.swapped`)
    renameSync(other, one)
    renameSync(`${one}.swapped`, other)
  }
  swap(join(copy, `neap/${series}/wal/${main.branch_id}`), join(copy, `neap/${series}/wal/${child.branch_id}`))
  const wal = await restore(copy)
  assert.equal(wal.code, 1)
  assert.match(wal.stderr, /does not open/)
  await leaveNothing(wal.dataDir)
  swap(join(copy, `neap/${series}/wal/${main.branch_id}`), join(copy, `neap/${series}/wal/${child.branch_id}`))
  for (const kind of ['backup', 'archive'])
    swap(join(copy, `${kind}/${series}-${main.branch_id}`), join(copy, `${kind}/${series}-${child.branch_id}`))
  const swapped = await restore(copy)
  await leaveNothing(swapped.dataDir)
  const { lost } = JSON.parse(swapped.stdout || assert.fail(swapped.stderr)) as { lost: { branch_id: string }[] }
  assert.deepEqual(lost.map(({ branch_id }) => branch_id).toSorted(), [main.branch_id, child.branch_id].toSorted())
})

test('a branch with a gap in its WAL is named as lost, and the others are restored', async () => {
  const child = await branchOff(neap, main)
  await fill(child, 10)
  await saved(child)
  const segments = (of: string) => globSync(`archive/*-${child.branch_id}/*/*/0*`, { cwd: of }).toSorted()
  const known = segments(repository).length
  await fill(child, 600_000)
  await until('the repository has two more of its segments', () => segments(repository).length >= known + 2)
  const copy = join(elsewhere, 'gap')
  cpSync(repository, copy, { recursive: true })
  rmSync(join(copy, segments(copy).at(-2) ?? assert.fail('there is no segment')))
  const { code, stdout, stderr, dataDir } = await restore(copy)
  await leaveNothing(dataDir)
  assert.equal(code, 0, stderr)
  const { lost, stores } = JSON.parse(stdout) as {
    lost: { branch_id: string; reason: string }[]
    stores: { branch_id: string }[]
  }
  assert.deepEqual(
    lost.map(({ branch_id }) => branch_id),
    [child.branch_id],
  )
  assert.match(lost[0]?.reason ?? '', /has a gap in its WAL, after [0-9A-F]{24}/)
  assert.ok(stores.some(({ branch_id }) => branch_id === main.branch_id))
  // Also a repository that was copied before the end of the WAL was pushed.
  for (const end of globSync(`neap/*/wal/${child.branch_id}`, { cwd: copy })) rmSync(join(copy, end))
  const alone = await restore(copy, { args: ['--branch', child.branch_id] })
  await leaveNothing(alone.dataDir)
  assert.equal(alone.code, 1, 'nothing of what was asked for is there')
  assert.match(alone.stdout, /has a gap in its WAL/)
})

test('a directory with other files is not restored to', async () => {
  const dataDir = newDataDir()
  writeFileSync(join(dataDir, 'thesis.tex'), 'done')
  const env = envOf(dataDir, { ...PROGRAM, NEAP_BACKUP_PASSPHRASE: passphrase })
  const { code, stderr } = await neapRun(['restore', '--from', repository], env)
  assert.equal(code, 1)
  assert.match(stderr, /is not empty, it has thesis\.tex: name an empty directory/)
  assert.deepEqual(readdirSync(dataDir), ['thesis.tex'])
  rmSync(join(dataDir, 'thesis.tex'))
  // The directories that a refused restore has made, the runtime directory too, do not hinder the next one.
  for (let time = 0; time < 2; time++) {
    const again = await neapRun(['restore', '--from', join(elsewhere, 'nothing')], env)
    assert.match(again.stderr, /There are no backups of a Neap in/)
  }
  await leaveNothing(dataDir)
})

test('the backups of a branch that is gone are removed once their time is over', async () => {
  const gone = await branchOff(neap, main)
  await saved(gone)
  const params = { project_id: gone.project_id, branch_id: gone.branch_id }
  const { operations } = await neap.call('DELETE /projects/:project_id/branches/:branch_id', { params })
  await neap.ended(operations)
  const opened = await findRepository(neap.ready.data_dir, PROGRAM.NEAP_PGBACKREST)
  assert.ok(opened)
  const findGone = async (ids: string[]) => ids.filter((id) => id === gone.branch_id)
  const stanza = `${opened.series}-${gone.branch_id}`
  assert.deepEqual(await removeAbandoned(opened, findGone), [])
  assert.ok(existsSync(join(repository, 'backup', stanza)))
  assert.deepEqual(await removeAbandoned(opened, findGone, new Date(Date.now() + 8 * 86_400_000)), [gone.branch_id])
  for (const kind of ['backup', 'archive']) assert.ok(!existsSync(join(repository, kind, stanza)), kind)
  assert.ok(existsSync(join(repository, 'backup', `${opened.series}-${main.branch_id}`)))
})

/** Commits one row after the other. Returns a moment between two of them, and the rows that were there then. */
async function commitAround(place: Place): Promise<{ at: string; rows: number }> {
  await query(neap, place.uri, 'create table if not exists numbered (number int)')
  let [at, rows] = ['', 0]
  for (let number = 1; number <= 20; number++) {
    await query(neap, place.uri, `insert into numbered values (${number})`)
    if (number !== 12) continue
    const [row] = await query<{ at: string }>(
      neap,
      place.uri,
      `select to_char(clock_timestamp() at time zone 'utc', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
    )
    ;[at, rows] = [row?.at ?? '', number]
  }
  return { at, rows }
}

const NUMBERED = 'select count(*)::int as count, max(number) as last from numbered'

/** Restores a part beside the running Neap, and calls `look` on it. */
async function restorePart(args: readonly string[], look: (restored: Neap) => Promise<void>): Promise<void> {
  const { code, stderr, dataDir } = await restore(repository, { args })
  assert.equal(code, 0, stderr)
  // No check of availability starts a branch before the test does.
  const restored = await startNeap({ dataDir, env: { ...PROGRAM, NEAP_AVAILABILITY_INTERVAL: '0' } })
  try {
    await look(restored)
  } finally {
    await restored.stop()
  }
}

/** The place on a Neap that serves on another port. */
function uriAt(restored: Neap, { uri }: Place): string {
  const there = new URL(uri)
  there.port = String(restored.ready.proxy_port)
  return String(there)
}

test('one branch is restored as it was at a moment, with its id and passwords and nothing else', async () => {
  const child = await branchOff(neap, main)
  await fill(child, 100)
  await saved(child)
  const { at, rows } = await commitAround(child)
  await saved(child)
  const { project_id, branch_id } = child
  const { webhook } = await neap.call('POST /webhooks', {
    body: { webhook: { url: 'https://example.com/hook', events: ['branch.deleted'] } },
  })
  await saved(child)
  await restorePart(['--branch', branch_id, '--at', at], async (restored) => {
    const { branches } = await restored.call('GET /projects/:project_id/branches', { params: { project_id } })
    assert.deepEqual(
      branches.map(({ id, default: isDefault, parent_id }) => ({ id, isDefault, parent_id })),
      [{ id: branch_id, isDefault: true, parent_id: undefined }],
    )
    const uri = uriAt(restored, child)
    // A branch of it from before its first start, which replays its WAL.
    const early = await branchOff(restored, { ...child, uri })
    for (const each of [early.uri, uri])
      assert.deepEqual(await query(restored, each, NUMBERED), [{ count: rows, last: rows }])
    // It is not taken for the whole: no webhook tells that the rest is gone, and no later restore finds it.
    assert.deepEqual((await restored.call('GET /webhooks', {})).webhooks, [])
    assert.ok(!existsSync(join(restored.ready.data_dir, 'backup/series')))
  })
  await neap.call('DELETE /webhooks/:webhook_id', { params: { webhook_id: webhook.id } })
  const early = await restore(repository, { args: ['--branch', branch_id, '--at', '2020-01-01T00:00:00Z'] })
  assert.equal(early.code, 1)
  assert.match(early.stderr, /The backups of [0-9a-f]{8} begin at 20/)
  await leaveNothing(early.dataDir)
})

test('a branch is not backed up before its data are masked', async () => {
  const { project_id } = main
  await query(neap, main.uri, `create table person as select 'ann@example.com'::text as email`)
  const column = { database_name: 'neondb', schema_name: 'public', table_name: 'person', column_name: 'email' }
  const { branch, operations } = await neap.call('POST /projects/:project_id/branch_anonymized', {
    params: { project_id },
    body: {
      branch_create: { branch: { parent_id: main.branch_id }, endpoints: [{ type: 'read_write' }] },
      masking_rules: [{ ...column, masking_value: 'masked' }],
      start_anonymization: false,
    },
  })
  await neap.ended(operations)
  const stored = (): boolean => globSync(`{backup,archive}/*-${branch.id}`, { cwd: repository }).length > 0
  assert.equal((await command(['backup', 'run'])).code, 0)
  assert.ok(!stored())
  const params = { project_id, branch_id: branch.id }
  await neap.call('POST /projects/:project_id/branches/:branch_id/anonymize', { params })
  await until('its data are masked', async () => {
    const found = await neap.call('GET /projects/:project_id/branches/:branch_id/anonymized_status', { params })
    return found.state === 'anonymized'
  })
  await until('it is backed up', async () => {
    const { saved_until } = await neap.call('GET /projects/:project_id/branches/:branch_id/backup', { params })
    return saved_until
  })
  assert.ok(stored())
  await query(neap, main.uri, 'drop table person')
})

test('a project that was deleted is restored as it was before', async () => {
  const project = await newProject(neap)
  const hash = await fill(project, 500)
  await saved(project)
  const { rows, at } = await commitAround(project)
  await saved(project)
  const { project_id } = project
  await neap.call('DELETE /projects/:project_id', { params: { project_id } })
  await command(['backup', 'run'])
  const absent = await restore(repository, { args: ['--project', project_id] })
  assert.equal(absent.code, 1)
  assert.match(absent.stderr, /The catalog has no project .* any more; --at goes back/)
  await leaveNothing(absent.dataDir)
  await restorePart(['--project', project_id, '--at', at], async (restored) => {
    const { projects } = await restored.call('GET /projects', {})
    assert.deepEqual(
      projects.map(({ id }) => id),
      [project_id],
    )
    assert.deepEqual(await query(restored, uriAt(restored, project), HASH), hash)
    assert.deepEqual(await query(restored, uriAt(restored, project), NUMBERED), [{ count: rows, last: rows }])
  })
})

test('a lost machine is restored from a bucket, with the same ids, hosts, passwords and keys', async () => {
  assert.equal((await command(['backup', 'end'])).code, 0)
  const location = `s3://${s3.bucket}/backups`
  const args = ['--s3-endpoint', s3.endpoint, '--ca-file', s3.caFile]
  const init = await command(['backup', 'init', location, ...args], s3.env)
  assert.equal(init.code, 0, init.stderr)
  passphrase = init.stdout.trim()
  const key = neap.ready.api_key ?? assert.fail('there is no key')
  const hash = await fill(main, 20_000)
  await query(neap, main.uri, `create table commits (at timestamptz not null)`)
  const { project_id } = main
  await saved(main)
  // Each commit says when it was made, until the machine is lost.
  let last = ''
  for (let count = 0; count < 40; count++) {
    const [row] = await query<{ at: string }>(
      neap,
      main.uri,
      'insert into commits values (clock_timestamp()) returning at::text as at',
    )
    last = row?.at ?? ''
  }
  await saved(main)
  const known = await statusOf(main)
  await query(neap, main.uri, 'insert into commits values (clock_timestamp())')
  const { branches } = await neap.call('GET /projects/:project_id/branches', { params: { project_id } })
  await loseMachine()

  const wrong = await restore(location, { args, env: { ...s3.env, NEAP_BACKUP_PASSPHRASE: 'another' } })
  assert.equal(wrong.code, 1)
  assert.match(wrong.stderr, /another passphrase/)
  await leaveNothing(wrong.dataDir)

  const restored = await restore(location, { args, env: s3.env })
  assert.equal(restored.code, 0, restored.stderr)
  const report = JSON.parse(restored.stdout) as { stores: { branch_id: string; until: string }[]; lost: unknown[] }
  assert.deepEqual(report.lost, [])
  const savedUntil = report.stores.find(({ branch_id }) => branch_id === main.branch_id)?.until ?? ''
  assert.ok(Date.parse(savedUntil) >= Date.parse(known.pushed_at ?? ''), 'it says until when it has all')

  neap = await startNeap({ dataDir: restored.dataDir, env: { ...PROGRAM, ...s3.env } })
  assert.equal(neap.ready.connection_uri, main.uri)
  assert.deepEqual(await query(neap, main.uri, HASH), hash)
  const commits = await query<{ at: string }>(neap, main.uri, 'select at::text as at from commits order by at desc')
  assert.ok(
    commits.some(({ at }) => at === last),
    'a commit from before the last comparison is there',
  )
  const now = await neap.call('GET /projects/:project_id/branches', { params: { project_id } })
  assert.deepEqual(now.branches.map(({ id }) => id).toSorted(), branches.map(({ id }) => id).toSorted())
  const answer = await fetch(`${neap.ready.api_url}/projects/${project_id}`, {
    headers: { authorization: `Bearer ${key}` },
  })
  assert.equal(answer.status, 200)
  // Backups go on, in a series of their own, and the history begins anew.
  await fill(main, 1)
  await saved(main)
  assert.ok(existsSync(join(neap.ready.data_dir, 'backup/series')))
})
