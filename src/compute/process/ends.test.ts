import { equal, match, rejects } from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { uptime } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { freshHost, PG_VERSION, query, settled } from '../../../test/local_host.ts'
import { until } from '../../../test/processes.ts'

/* The words for the end of a compute, and the directories that it leaves. */

const local = freshHost()
const { storage, computes, next, options } = local
before(() => storage.prepare(PG_VERSION))
after(() => local.dispose())

/** Kills all processes of a server at once, as a power cut does. */
async function cutPower(branch: ReturnType<typeof local.branch>, pid: number): Promise<void> {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim().split(' ').map(Number)
  for (const each of [pid, ...children]) process.kill(each, 'SIGKILL')
  await until('its end', async () => (await computes.find(branch)) === undefined)
}

const logOf = ({ id }: { readonly id: string }) =>
  readFileSync(join(options.dataDir, 'logs', id, 'postgres.log'), 'utf8')

test('what servers log while they start is not given as the cause of an end', async () => {
  const [parent, child] = [local.branch('parent'), local.branch('child')]
  await settled(() => storage.create(parent, next()))
  const above = await local.start(parent, next())
  await query(above.address, 'create table item as select generate_series(1, 1000) as id')
  await settled(() => storage.clone(child, parent, next()))
  const cut = await local.start(child, next())
  match(logOf(child), /LOG: +completed backup recovery/)
  await cutPower(child, cut.pid)
  equal(await computes.lastWords(child, cut), '')
  const crashed = await local.start(child, next())
  match(logOf(child), /automatic recovery in progress/)
  equal(await computes.lastWords(child, cut), '')
  await rejects(query(crashed.address, `copy (select 1) to program 'kill -9 $PPID'`))
  await until('its end', async () => (await computes.find(child)) === undefined)
  const words = await computes.lastWords(child, crashed)
  match(words, /^LOG: +[a-z ]+ \(PID \d+\) was terminated by signal 9/)
  // A server tells the time of its start in whole seconds.
  await until('the start of a later time', () => Date.now() > +crashed.startedAt + 1_500)
  const last = await local.start(child, next())
  equal(await computes.lastWords(child, crashed), words)
  equal(await computes.lastWords(child, last), '')
  const boot = Date.now() - uptime() * 1000
  equal(await computes.lastWords(child, { ...last, startedAt: new Date(boot - 90_000) }), 'its machine was restarted')
  for (const each of [parent, child]) await settled(() => computes.stop(each, next()))
})

test('a stop leaves no runtime directory, nor does one that finds its compute killed', async () => {
  const branch = local.branch('leaves')
  await settled(() => storage.create(branch, next()))
  const { address } = await local.start(branch, next())
  equal(existsSync(join(address.host, '.s.PGSQL.5432')), true)
  await settled(() => computes.stop(branch, next()))
  equal(existsSync(address.host), false)
  const { pid } = await local.start(branch, next())
  await cutPower(branch, pid)
  equal(existsSync(address.host), true)
  await settled(() => computes.stop(branch, next()))
  equal(existsSync(address.host), false)
  const again = await local.start(branch, next())
  await query(again.address, 'select 1')
  await settled(() => computes.stop(branch, next()))
})
