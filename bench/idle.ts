/* The cost of idle endpoints: the control plane with 10,000 of them registered, against the same one with 10. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { newDataDir, startNeap } from '../test/neap.ts'
import { catalogQuery } from '../test/admin.ts'
import { processesOf } from '../test/processes.ts'
import { firstPlace, suspend } from '../test/project.ts'
import { percentile, report } from './samples.ts'

const [many = 10_000, seconds = 150] = process.argv.slice(2).map(Number)
const FEW = 10
const BRANCHES = 10
const EVERY_SECONDS = 5
/** After this time the operations caused by a change have ended and each control loop has run once. */
const SETTLE_SECONDS = 65
/** The unit of CPU times in /proc (proc(5), CLK_TCK) on every Linux that Neap supports. */
const TICKS_PER_SECOND = 100

const cpu: Record<string, number[]> = {}
const memory: Record<string, number[]> = {}
const processes: Record<string, number> = {}
const dataDir = newDataDir()
let neap = await startNeap({ dataDir })
try {
  await suspend(neap, await firstPlace(neap))
  await register(FEW - 1)
  await measure(`${FEW} endpoints`)
  await register(many - FEW)
  await measure(`${many} endpoints`)
} finally {
  await neap.stop()
}

/**
 * Inserts idle endpoints, ten branches per project, with role, database and operations, as the API and a worker would
 * leave them.
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
     insert into project (id, account_id, name, region_id, pg_version, last_seq)
       select project_id, a.id, project_id, 'local', 18, 100 from made, account a where is_first and a.is_default;
     insert into branch (id, account_id, project_id, name, is_default, current_state, applied_version)
       select branch_id, a.id, project_id, branch_id, is_first, 'ready', 1 from made, account a where a.is_default;
     set local session_replication_role = replica;
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
       select gen_random_uuid(), a.id, project_id, branch_id, endpoint_id, n % ${BRANCHES} * 3 + place, action,
              'finished', array[branch_id], array[project_id], 'ended', 60,
              now() + (n % ${BRANCHES} * 3 + place) * interval '1 ms', now(), now()
         from made, account a,
              (values (1, 'create_branch'), (2, 'start_compute'), (3, 'suspend_compute')) o (place, action)
        where a.is_default;
     set local session_replication_role = origin; commit; analyze`,
  )
  console.log(`${count} endpoints in ${((performance.now() - begun) / 1000).toFixed(0)} s`)
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
function memoryMib(): number {
  return sum((pid) => {
    const text = readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8')
    const kib = ['Anon', 'Shmem'].map((kind) =>
      Number(new RegExp(`^Pss_${kind}: +(\\d+) kB`, 'm').exec(text)?.[1] ?? 0),
    )
    return kib.reduce((total, each) => total + each, 0) / 1024
  })
}

/** A process that has ended meanwhile counts 0; its parent has its CPU time. */
function sum(of: (pid: number) => number): number {
  return ours().reduce((total, pid) => {
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
      'endpoints are rows as the API and a worker leave them',
    'each after a restart; memory (PSS without files, median): ' +
      `${memoryOf(few).toFixed(0)} MiB with ${FEW}, ${memoryOf(lots).toFixed(0)} MiB with ${many}`,
  ],
  cpu,
  [
    { what: `processor time with ${many}, mean`, value: mean(cpu[lots]), most: 2, unit: ' %' },
    { what: `processor time with ${FEW}, mean, for comparison`, value: mean(cpu[few]), most: 2, unit: ' %' },
    { what: 'memory, median, more than with 10', value: memoryOf(lots) - memoryOf(few), most: 100, unit: ' MiB' },
    { what: 'processes, more than with 10', value: (processes[lots] ?? 0) - (processes[few] ?? 0), most: 0, unit: '' },
  ],
  '% of one core',
)
