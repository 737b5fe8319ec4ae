/* The latency of the first and the last page of a million operations, with and without filters. */
import { startNeap } from '../test/neap.ts'
import { send } from '../test/http.ts'
import { catalogQuery } from '../test/admin.ts'
import { percentile, report } from './samples.ts'

const [operations = 1_000_000, samples = 200] = process.argv.slice(2).map(Number)
const LIMIT = 100
const DEPTH = operations / LIMIT

/** The column values of each filter; the name says the share of rows that match. */
const FILTERS: Record<string, Record<string, string>> = {
  'no filter': {},
  'endpoint, of half': { endpoint_id: 'ep-half' },
  'branch, of half': { branch_id: 'br-half' },
  'action, of half': { action: 'suspend_compute' },
  'status finished, of nearly all': { status: 'finished' },
  'status failed, of one in a hundred': { status: 'failed' },
}

const rows: Record<string, number[]> = {}
const neap = await startNeap({
  env: { NEAP_RATE_LIMIT_PER_MINUTE: '0', NEAP_RATE_LIMIT_PER_SECOND: '0', NEAP_CPU_PER_KEY: '0' },
})
try {
  const project = neap.ready.project_id
  if (!project) throw new Error('no first project')
  await load(project)
  for (const [name, filter] of Object.entries(FILTERS)) {
    const where = Object.entries(filter).map(([column, value]) => `${column} = '${value}'`)
    const [first, deep] = await Promise.all([pageBefore(project, where, 0), pageBefore(project, where, 0.99)])
    const [near, far] = [(rows[`${name}: page 1`] = []), (rows[`${name}: deep page`] = [])] as [number[], number[]]
    for (let each = -20; each < samples; each++) {
      // Alternate the two, so that other load on the machine affects both alike.
      const [nearMs, farMs] = [
        await page(project, { ...filter, ...first }),
        await page(project, { ...filter, ...deep }),
      ]
      if (each < 0) continue
      near.push(nearMs)
      far.push(farMs)
    }
  }
} finally {
  await neap.stop()
}

/** Fills the project with ended operations, a tenth of a second apart, without firing the notification triggers. */
async function load(project: string): Promise<void> {
  const begun = performance.now()
  await catalogQuery(
    neap,
    `begin; set local statement_timeout = 0; set local session_replication_role = replica;
     insert into operation (id, account_id, project_id, branch_id, endpoint_id, seq, action, status, error,
                            excludes, shares, step, deadline_seconds, created_at, updated_at, started_at, finished_at)
     select gen_random_uuid(), p.account_id, p.id, case when n % 2 = 0 then 'br-half' else 'br-other' end,
            case when n % 2 = 0 then 'ep-half' else 'ep-other' end, p.last_seq + n,
            case when n % 2 = 0 then 'suspend_compute' else 'start_compute' end,
            case when n % 100 = 0 then 'failed' else 'finished' end, case when n % 100 = 0 then 'it failed' end,
            array[p.id], array[p.id], 'begun', 60, at, at, at, at
       from project p, generate_series(1, ${operations}) n,
            lateral (select p.last_operation_at + n * interval '100 milliseconds' as at) as time
      where p.id = '${project}';
     update project set last_seq = last_seq + ${operations},
            last_operation_at = last_operation_at + (${operations} + 1) * interval '100 milliseconds'
      where id = '${project}';
     commit; analyze operation`,
  )
  console.log(`${operations} operations in ${((performance.now() - begun) / 1000).toFixed(0)} s`)
}

/** The cursor of the page at this share of the list; {} for the first page. */
async function pageBefore(project: string, where: string[], share: number): Promise<{ cursor?: string }> {
  if (share === 0) return {}
  const condition = ['project_id = $1', ...where].join(' and ')
  const [row] = await catalogQuery<{ cursor: string }>(
    neap,
    `select to_char(created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as cursor
       from operation where ${condition}
      order by created_at desc
     offset (select least(count(*) * ${share}, count(*) - ${LIMIT * 2})::bigint
                from operation where ${condition}) limit 1`,
    [project],
  )
  return row ?? {}
}

async function page(project: string, query: Record<string, string>): Promise<number> {
  const search = new URLSearchParams({ limit: String(LIMIT), ...query }).toString()
  const begun = performance.now()
  const { status, body } = await send(neap, 'GET', `/projects/${project}/operations?${search}`)
  const ms = performance.now() - begun
  const { length } = (body['operations'] ?? []) as unknown[]
  if (status !== 200 || length !== LIMIT) throw new Error(`${search}: ${status}, ${length} operations`)
  return ms
}

const median = (name: string) => percentile(rows[name] ?? [], 0.5)
report(
  'page',
  [
    `one project with ${operations} operations; pages of ${LIMIT}; ` +
      `deep: the one that lies ${DEPTH - 2} pages down, or as far down as the filter goes`,
    'milliseconds until the whole answer is there, over HTTP with an API key, ' +
      'one request at a time on a kept connection; in turn',
  ],
  rows,
  Object.keys(FILTERS).flatMap((name) => [
    {
      what: `${name}: deep page / page 1, medians`,
      value: median(`${name}: deep page`) / median(`${name}: page 1`),
      most: 1.2,
      unit: '×',
    },
    // Otherwise two equally slow pages would pass.
    {
      what: `${name}: page 1 / page 1 without a filter, medians`,
      value: median(`${name}: page 1`) / median('no filter: page 1'),
      most: 1.5,
      unit: '×',
    },
  ]),
)
