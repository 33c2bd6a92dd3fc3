/** Finds ports for programs that need a port number in advance. */
import { randomInt } from 'node:crypto'
import { connect, createServer, type Server } from 'node:net'

/**
 * Below the range of Linux, macOS and Windows from which systems take ports for connections and for port 0: nothing else takes such a
 * port while its program has not started yet, or is started again. Browsers refuse 10080.
 */
const RANGE = [10_100, 32_000] as const
const MOST_TRIED = 200

/** Different ports on which no process listens. */
export const freePorts = async (count: number): Promise<readonly number[]> => {
  const held = new Map<number, Server>()
  for (let tried = 0; held.size < count; tried++) {
    if (tried === MOST_TRIED) throw new Error(`no ${count} ports are free`)
    const port = randomInt(...RANGE)
    const server = createServer()
    const isFree = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (isFree) held.set(port, server)
  }
  await Promise.all([...held.values()].map((server) => new Promise((resolve) => server.close(resolve))))
  return [...held.keys()]
}

/** Whether a process accepts connections on a port. */
export const accepts = (port: number, host = '127.0.0.1'): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect(port, host)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
