/** Whether a process of this machine (of this PID namespace) is running. */
export const isAlive = (pid: number): boolean => {
  try {
    // Signal 0 sends nothing.
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
