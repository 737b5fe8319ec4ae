/** CPU time of this thread in milliseconds. By a clock a key would pay for the time in which the process was frozen. */
export function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage()
  return (user + system) / 1_000
}
