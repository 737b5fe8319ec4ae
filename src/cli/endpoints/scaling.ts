import { Command } from 'commander'
import type { ApiResponse } from '../../client.ts'
import { type Columns, list, moment } from '../table.ts'
import { type VerbSession, verb } from '../verb.ts'
import { OPTIONAL } from './columns.ts'

type Found = ApiResponse<'GET /projects/:project_id/endpoints/:endpoint_id/scaling'>
type Change = Found['scaling'][number]

const WHY: Record<Change['reason'], (figures: NonNullable<Change['figures']>) => string> = {
  request: () => 'the limits were changed',
  cpu: ({ cpus_wanted }) => `its processes wanted ${cpus_wanted} CPUs`,
  memory: ({ anon_bytes }) => `it held ${gib(anon_bytes)} of memory`,
  cache: ({ refault_bytes }) => `it read ${gib(refault_bytes)} again that had been evicted`,
  less_use: ({ cpus_used }) => `it used ${cpus_used} CPUs`,
}

const COLUMNS: Columns<Change> = {
  AT: ({ at }) => moment(at),
  FROM: ({ from_cu }) => `${from_cu} CU`,
  TO: ({ to_cu, wanted_cu }) => `${to_cu} CU${wanted_cu ? ` of ${wanted_cu}: its host had no more` : ''}`,
  BECAUSE: ({ reason, figures = {} }) => WHY[reason](figures),
}

export const scalingVerb = () =>
  new Command('scaling')
    .description('Show how the size of a compute has changed while it ran, and why.')
    .addArgument(OPTIONAL)
    .action(
      verb(async ({ call, endpoint }: VerbSession<object>, asked?: string) => ({
        answer: await call('GET /projects/:project_id/endpoints/:endpoint_id/scaling', {
          params: await endpoint(asked),
        }),
        text: ({ scaling }: Found) => list(scaling, COLUMNS, 'Its size has not changed in the last seven days.'),
      })),
    )

const gib = (bytes = 0): string => `${(bytes / 2 ** 30).toFixed(1)} GiB`
