/*
 * The cost of idle endpoints: the control plane with 100,000 of them, their directories, and a year of operations and
 * audit rows, against the same one with 10.
 */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { newDataDir, startNeap } from '../test/neap.ts'
import { catalogQuery } from '../test/admin.ts'
import { processesOf } from '../test/processes.ts'
import { firstPlace, suspend } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [many = 100_000, seconds = 150] = process.argv.slice(2).map(Number)
const FEW = 10
const BRANCHES = 10
/** Operations of an endpoint in the year before; and audit rows. */
const OLD_OPERATIONS = 4
const AUDIT_ROWS = 10
const EVERY_SECONDS = 5
/** After this time the operations caused by a change have ended and each control loop has run once. */
const SETTLE_SECONDS = 65
/** The unit of CPU times in /proc (proc(5), CLK_TCK) on every Linux that Neap supports. */
const TICKS_PER_SECOND = 100

const cpu: Record<string, number[]> = {}
const memory: Record<string, number[]> = {}
const processes: Record<string, number> = {}
/** The memory of the catalog's processes, in MiB, and of the others. */
const parts: Record<string, string> = {}
let cleaned = ''
const dataDir = newDataDir()
let neap = await startNeap({ dataDir })
try {
  await suspend(neap, await firstPlace(neap))
  await register(FEW - 1)
  await measure(`${FEW} endpoints`)
  await register(many - FEW)
  await awaitRetention()
  await measure(`${many} endpoints`)
} finally {
  await neap.stop()
}

/**
 * Inserts idle endpoints, ten branches per project, with role, database, store, directory, operations and audit rows,
 * as the API and a worker would leave them.
 */
async function register(count: number): Promise<void> {
  const begun = performance.now()
  const tag = String(count)
  await catalogQuery(
    neap,
    `begin; set local statement_timeout = 0;
     create temporary table made on commit drop as
       select n, 'made-${tag}-' || lpad((n / ${BRANCHES})::text, 8, '0') as project_id,
              'br-made-${tag}-' || n as branch_id, 'ep-made-${tag}-' || n as endpoint_id,
              n % ${BRANCHES} = 0 as is_first
         from generate_series(0, ${count} - 1) n;
     set local session_replication_role = replica;
     insert into project (id, account_id, name, region_id, pg_version, last_seq)
       select project_id, a.id, project_id, 'local', 18, 2000 from made, account a where is_first and a.is_default;
     insert into branch (id, account_id, project_id, name, is_default, current_state, applied_version, store_id)
       select branch_id, a.id, project_id, branch_id, is_first, 'ready', 1, branch_id
         from made, account a where a.is_default;
     insert into store (id, branch_id, host_id, made_from, state, bytes, measured_at)
       select branch_id, branch_id, (select id from host limit 1), 'clone', 'ready', 10000000, now() from made;
     insert into project_space (project_id, host_id, shared_bytes, changed_at, measured_at)
       select project_id, (select id from host limit 1), 0, now(), clock_timestamp() from made where is_first;
     insert into store_space (store_id, apparent_bytes, real_bytes, own_bytes, history_bytes, is_exact)
       select branch_id, 10000000, 10000000, 10000000, 0, true from made;
     insert into role (branch_id, name, account_id)
       select branch_id, 'owner', a.id from made, account a where a.is_default;
     insert into database (branch_id, name, account_id, owner_name)
       select branch_id, 'app', a.id, 'owner' from made, account a where a.is_default;
     insert into endpoint (id, account_id, project_id, branch_id, min_cu, max_cu, current_state,
                           started_at, suspended_at, last_active)
       select endpoint_id, a.id, project_id, branch_id, 0.25, 0.25, 'idle', now(), now(), now()
         from made, account a where a.is_default;
     insert into operation (id, account_id, project_id, branch_id, endpoint_id, seq, action, status, excludes, shares,
                            step, deadline_seconds, created_at, started_at, finished_at)
       select uuidv7(), a.id, project_id, branch_id, endpoint_id, 1000 + n % ${BRANCHES} * 3 + place, action,
              'finished', array[branch_id], array[project_id], 'ended', 60,
              now() + (n % ${BRANCHES} * 3 + place) * interval '1 ms', now(), now()
         from made, account a,
              (values (1, 'create_branch'), (2, 'start_compute'), (3, 'suspend_compute')) o (place, action)
        where a.is_default;
     insert into operation (id, account_id, project_id, branch_id, endpoint_id, seq, action, status, excludes, shares,
                            step, deadline_seconds, created_at, started_at, finished_at)
       select uuidv7(-o.age), a.id, project_id, branch_id, endpoint_id, n % ${BRANCHES} * ${OLD_OPERATIONS} + o.number,
              'start_compute', 'finished', array[branch_id], array[project_id], 'ended', 60,
              now() - o.age - n % ${BRANCHES} * interval '1 ms', now() - o.age, now() - o.age
         from made, account a,
              (select number, number * interval '1 year' / ${OLD_OPERATIONS + 1} as age
                 from generate_series(1, ${OLD_OPERATIONS}) number) o
        where a.is_default;
     insert into audit (account_id, request_id, action, project_id, subject, status, created_at)
       select a.id, gen_random_uuid(), 'POST /projects', 'made-${tag}', '/projects', 201,
              now() - interval '364 days' * (1 - n::float8 / (${count} * ${AUDIT_ROWS}))
         from generate_series(1, ${count} * ${AUDIT_ROWS}) n, account a where a.is_default order by n;
     set local session_replication_role = origin; commit; analyze`,
  )
  for (let number = 0; number < count; number++) makeDirectory(`br-made-${tag}-${number}`)
  console.log(`${count} endpoints in ${((performance.now() - begun) / 1000).toFixed(0)} s`)
}

/** The directory of a branch that has been used, and its log, without the data. */
function makeDirectory(id: string): void {
  const home = join(dataDir, 'branches', id)
  for (const directory of ['pgdata/global', 'pgdata/base', 'conf'])
    mkdirSync(join(home, directory), { recursive: true, mode: 0o700 })
  for (const file of ['server.lock', 'effect.lock', 'fence']) writeFileSync(join(home, file), '')
  mkdirSync(join(dataDir, 'logs', id), { recursive: true, mode: 0o700 })
  writeFileSync(join(dataDir, 'logs', id, 'postgres.log'), 'a line\n')
}

/** Waits until operations past their retention are removed, which goes on beside other work. */
async function awaitRetention(): Promise<void> {
  const begun = performance.now()
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir })
  const old = () => catalogQuery(neap, `select from operation where id < uuidv7(interval '-31 days') limit 1`)
  while ((await old()).length > 0) await sleep(1000)
  await catalogQuery(neap, 'vacuum (analyze)')
  const removed = (many - FEW) * OLD_OPERATIONS
  cleaned = `${removed} old operations were removed within ${((performance.now() - begun) / 1000).toFixed(0)} s`
  console.log(cleaned)
}

async function measure(name: string): Promise<void> {
  // Restart, to exclude the processes' earlier CPU time and memory.
  await neap.stop({ keep: true })
  neap = await startNeap({ dataDir })
  await sleep(SETTLE_SECONDS * 1000)
  const [shares, sizes]: [number[], number[]] = [[], []]
  cpu[name] = shares
  memory[name] = sizes
  for (let second = 0; second < seconds; second += EVERY_SECONDS) {
    const [before, at] = [cpuSeconds(), performance.now()]
    await sleep(EVERY_SECONDS * 1000)
    shares.push(((cpuSeconds() - before) / (performance.now() - at)) * 1000 * 100)
    sizes.push(memoryMib())
  }
  processes[name] = ours().length
  const catalogs = processesOf(dataDir).filter(({ command }) => /^(\S*\/)?postgres[: ]/.test(command))
  const inCatalog = memoryMib(catalogs.map(({ pid }) => pid))
  parts[name] = `${inCatalog.toFixed(0)} MiB of it the catalog, ${(memoryMib() - inCatalog).toFixed(0)} MiB the parts`
}

/** The pids of the control plane and its catalog: no compute runs. */
function ours(): number[] {
  return processesOf(dataDir).map(({ pid }) => pid)
}

/** Total CPU time, including that of processes that have ended (proc(5), fields 14 to 17). */
function cpuSeconds(): number {
  return sum((pid) => {
    const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' ')
    return fields.slice(11, 15).reduce((total, ticks) => total + Number(ticks), 0) / TICKS_PER_SECOND
  })
}

/** Memory in MiB without file pages: shared memory is counted once, program text not at all. */
function memoryMib(pids = ours()): number {
  return sum((pid) => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    const kib = ['Anon', 'Shmem'].map((kind) =>
      Number(new RegExp(`^Pss_${kind}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0),
    )
    return kib.reduce((total, each) => total + each, 0) / 1024
  }, pids)
}

/** A process that has ended meanwhile counts 0; its parent has its CPU time. */
function sum(of: (pid: number) => number, pids = ours()): number {
  return pids.reduce((total, pid) => {
    try {
      return total + of(pid)
    } catch {
      return total
    }
  }, 0)
}

const mean = (samples: readonly number[] = []) => samples.reduce((total, each) => total + each, 0) / samples.length
const [few, lots] = [`${FEW} endpoints`, `${many} endpoints`] as [string, string]
const memoryOf = (name: string) => percentile(memory[name] ?? [], 0.5)
report(
  'idle',
  [
    'all processes of one Neap (supervisor, api, worker, proxy, catalog) while nobody asks for anything, ' +
      `${seconds} s of each after ${SETTLE_SECONDS} s;`,
    `a sample for each ${EVERY_SECONDS} s: processor time as a share of one core; ` +
      'endpoints are rows and directories as the API and a worker leave them',
    cleaned,
    'each after a restart; memory (PSS without files, median): ' +
      `${memoryOf(few).toFixed(0)} MiB with ${FEW} (${parts[few]}), ` +
      `${memoryOf(lots).toFixed(0)} MiB with ${many} (${parts[lots]})`,
  ],
  cpu,
  [
    { what: `processor time with ${many}, mean`, value: mean(cpu[lots]), most: 2, unit: ' %' },
    { what: `processor time with ${FEW}, mean, for comparison`, value: mean(cpu[few]), most: 2, unit: ' %' },
    { what: 'memory, median, more than with 10', value: memoryOf(lots) - memoryOf(few), most: 50, unit: ' MiB' },
    { what: 'processes, more than with 10', value: (processes[lots] ?? 0) - (processes[few] ?? 0), most: 0, unit: '' },
  ],
  '% of one core',
)
