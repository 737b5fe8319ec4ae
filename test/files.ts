/* Prints the test files that a run tests, a line each: all of them, but of heavy suites a sample (sample.ts). */
import { globSync } from 'node:fs'
import { isSampled } from './sample.ts'

/** Each of these attacks a Neap of its own. */
const HEAVY = /^test\/attacks\//

const files = globSync(['src/**/*.test.ts', 'test/**/*.test.ts'], { cwd: new URL('..', import.meta.url) })
process.stdout.write(
  `${files
    .filter((file) => !HEAVY.test(file) || isSampled(file))
    .sort()
    .join('\n')}\n`,
)
