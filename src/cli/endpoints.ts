import type { Command, Option } from 'commander'
import { activityVerb } from './endpoints/activity.ts'
import { createVerb } from './endpoints/create.ts'
import { deleteVerb } from './endpoints/delete.ts'
import { getVerb } from './endpoints/get.ts'
import { listVerb } from './endpoints/list.ts'
import { metricsVerb } from './endpoints/metrics.ts'
import { restartVerb } from './endpoints/restart.ts'
import { scalingVerb } from './endpoints/scaling.ts'
import { startVerb } from './endpoints/start.ts'
import { suspendVerb } from './endpoints/suspend.ts'
import { updateVerb } from './endpoints/update.ts'
import { noun, PROJECT } from './verb.ts'

/** `neap endpoints …` */
export function endpointsCommand(access: readonly Option[]): Command {
  const about = 'Compute endpoints: where clients connect to a branch.'
  const verbs = [
    listVerb(),
    getVerb(),
    activityVerb(),
    scalingVerb(),
    metricsVerb(),
    createVerb(),
    updateVerb(),
    startVerb(),
    suspendVerb(),
    restartVerb(),
    deleteVerb(),
  ]
  return noun('endpoints', about, [...access, PROJECT], verbs)
}
