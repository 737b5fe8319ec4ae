/* Prints the test files that a run tests, a line each: all of them, but of heavy suites a sample (sample.ts). */
import { globSync } from 'node:fs'
import { isSampled } from './sample.ts'

/** Each of these starts a Neap of its own, which takes ten seconds of CPU. */
const HEAVY = /^test\/(attacks|clients|console|stories)\//

const files = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: new URL('..', import.meta.url) })
process.stdout.write(
  `${files
    .filter((file) => !HEAVY.test(file) || isSampled(file))
    .sort()
    .join('\n')}\n`,
)
