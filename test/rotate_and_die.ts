/*
 * Rotates the secrets of the Neap in NEAP_DATA_DIR and kills itself with SIGKILL after a step or a number of
 * milliseconds.
 */
import { loadConfig } from '../src/config.ts'
import { rotate } from '../src/rotation/rotate.ts'

const die = (): void => void process.kill(process.pid, 'SIGKILL')

const [when = ''] = process.argv.slice(2)
if (/^\d+$/.test(when)) setTimeout(die, Number(when))
await rotate({ config: loadConfig({}), onStep: (step) => step === when && die() })
