/** Finds out whether a port is free, and waits until it is. */
import { type AddressInfo, createServer } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'

/** A free port, found by listening for a moment: `port`, or any if that is 0. Rejects with the error of `listen`. */
export const freePort = (port: number, host: string | undefined): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer((socket) => socket.destroy())
    server.once('error', reject)
    server.listen({ port, host }, () => {
      // The address of a TCP server is an object.
      const { port: found } = server.address() as AddressInfo
      server.close(() => resolve(found))
    })
  })

/** ms between two looks at a port that is in use. */
const PAUSE = 50

/** Waits until a port is not in use, at most `ms`. `onWait` is called if it has to wait. */
export const untilFree = async (
  { port, host, ms }: { readonly port: number; readonly host: string | undefined; readonly ms: number },
  onWait: () => void,
): Promise<void> => {
  const isInUse = () =>
    freePort(port, host).then(
      () => false,
      (error: NodeJS.ErrnoException) => error.code === 'EADDRINUSE',
    )
  if (!(await isInUse())) return
  onWait()
  for (const end = performance.now() + ms; performance.now() < end; ) {
    await wait(PAUSE)
    if (!(await isInUse())) return
  }
}
