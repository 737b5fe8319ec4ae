import { Command, Option } from 'commander'
import type { ApiResponse } from '../../client.ts'
import { type Columns, list, moment } from '../table.ts'
import { wholeNumber } from '../values.ts'
import { type VerbSession, verb } from '../verb.ts'
import { OPTIONAL } from './columns.ts'

type Found = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/metrics'>
type Point = Found['metrics']['points'][number]

const HOUR_MS = 3_600_000
const MAX_HOURS = 92 * 24

const gib = (bytes: number | undefined) => (bytes === undefined ? undefined : `${(bytes / 2 ** 30).toFixed(2)} GiB`)
const rounded = (value: number | undefined) => (value === undefined ? undefined : value.toFixed(2))

const COLUMNS: Columns<Point> = {
  AT: ({ at }) => moment(at),
  SIZE: ({ cu }) => `${rounded(cu)} CU`,
  CPUS: ({ cpu }) => rounded(cpu),
  MEMORY: ({ memory_bytes }) => gib(memory_bytes),
  CACHE: ({ cache_bytes }) => gib(cache_bytes),
  SESSIONS: ({ connections }) => rounded(connections)?.replace('.00', ''),
  CLIENTS: ({ client_connections }) => rounded(client_connections)?.replace('.00', ''),
  HITS: ({ cache_hit_ratio: ratio }) => (ratio === undefined ? undefined : `${(100 * ratio).toFixed(1)} %`),
  DATA: ({ logical_size_bytes }) => gib(logical_size_bytes),
}

export const metricsVerb = () =>
  new Command('metrics')
    .description('Show what a compute has used, in steps; those in which it slept are left out.')
    .addArgument(OPTIONAL)
    .addOption(new Option('--hours <number>', 'of so many hours').argParser(wholeNumber(1, MAX_HOURS)).default(1))
    .action(
      verb(async ({ call, endpoint, flags }: VerbSession<{ readonly hours: number }>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/endpoints/:endpoint_id/metrics', {
          params: await endpoint(asked),
          query: { from: new Date(Date.now() - flags.hours * HOUR_MS).toISOString() },
        }),
        text: ({ metrics }: Found) =>
          list(metrics.points, COLUMNS, 'No figures of that time: they are kept once a minute while the compute runs.'),
      })),
    )
