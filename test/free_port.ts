import { choosePort } from '../src/supervisor/ports.ts'

/** A free loopback port outside the range of ephemeral ports. */
export const freePort = (): Promise<number> =>
  choosePort({ name: 'a test', flag: '', port: 0, asked: false }, [], () => {})
