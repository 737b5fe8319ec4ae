import type { ApiResponse } from '../../../../src/client.ts'
import type { Endpoint } from '../../api.ts'
import { bytes } from '../../parts/amounts.ts'
import { sizes } from '../endpoint_state.tsx'

export type Scaling = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/scaling'>['scaling'][number]

/** A figure of a record; 0 where it is missing. */
const figure = ({ figures = {} }: Pick<Scaling, 'figures'>, name: string): number => figures[name] ?? 0

const WHY: Record<Scaling['reason'], (record: Scaling) => string> = {
  request: () => 'its limits were changed',
  cpu: (record) => `its processes wanted ${cpus(figure(record, 'cpus_wanted'))}`,
  memory: (record) => `it held ${bytes(figure(record, 'anon_bytes'))} of memory`,
  cache: (record) => `it read ${bytes(figure(record, 'refault_bytes'))} again that had been evicted from memory`,
  less_use: (record) => `it used only ${cpus(figure(record, 'cpus_used'))}`,
}

const cpus = (count: number): string => `${count.toFixed(2)} CPUs`

/** Why the autoscaler changed a size, in words that follow "because". */
export const reasonOf = (record: Scaling): string => WHY[record.reason](record)

const WRITES_REFUSED: Record<NonNullable<Endpoint['writes_refused']>, string> = {
  branch_size: 'It refuses writes: the branch is larger than the limit of its project. Delete data or raise the limit.',
  host_disk: 'It refuses writes: the disk of its host is almost full. Its administrator has to make room.',
}

/**
 * Why a compute has the size that it has, as sentences.
 * @param last the latest change of its size, if there is one
 */
export function sizeWords(endpoint: Endpoint, last: Scaling | undefined): string[] {
  const { limit_error, writes_refused, wanted_cu } = endpoint
  return [
    whySize(endpoint, last),
    ...(wanted_cu === undefined ? [] : [`It wants ${wanted_cu} CU, and its host has no more room now.`]),
    ...(limit_error === undefined ? [] : [`It is not held to its size: ${limit_error}.`]),
    ...(writes_refused === undefined ? [] : [WRITES_REFUSED[writes_refused]]),
  ]
}

function whySize(endpoint: Endpoint, last: Scaling | undefined): string {
  const { autoscaling_limit_min_cu: min, autoscaling_limit_max_cu: max, current_cu, started_at } = endpoint
  const range = `It scales by itself from ${sizes(min, max)}.`
  if (min === max) return `Its size is fixed: ${min} CU are ${min} CPUs and ${min * 4} GiB of memory.`
  if (current_cu === undefined) return `${range} It starts with ${min} CU.`
  const isOfThisRun = last !== undefined && started_at !== undefined && Date.parse(last.at) >= Date.parse(started_at)
  if (isOfThisRun && last.to_cu === current_cu)
    return `${range} It went from ${last.from_cu} to ${last.to_cu} CU because ${reasonOf(last)}.`
  if (current_cu === min) return `${range} It has its lower limit, with which it started.`
  return range
}
