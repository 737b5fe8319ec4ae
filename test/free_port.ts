import { choosePort } from '../src/supervisor/ports.ts'

/** A loopback port that nothing listens on, and that no outgoing connection will be given. */
export const freePort = (): Promise<number> =>
  choosePort({ name: 'a test', flag: '', port: 0, asked: false }, [], () => {})
