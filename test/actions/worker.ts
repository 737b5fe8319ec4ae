/** A worker as `neap worker` starts it, but with faults. It is preloaded and starts when its parent says so. */
import { once } from 'node:events'
import { loadConfig } from '../../src/config.ts'
import { ACTIONS } from '../../src/operations/index.ts'
import { runPart } from '../../src/parts/part.ts'
import { startWorker } from '../../src/parts/worker.ts'
import { strike, withFaults } from './faults.ts'

const gone = () => process.exit(0)
process.once('disconnect', gone)
await once(process, 'message')
process.off('disconnect', gone)
await runPart('worker', loadConfig(), (context) =>
  startWorker(context, { definitions: ACTIONS.map(withFaults), onStep: strike }),
)
