import type { EventEmitter } from 'node:events'

/**
 * Takes Node's own listener for the other side's end from a socket, for an owner that sees to the end itself: two would be
 * a list, for as long as there is the connection.
 */
export const dropEndListeners = (socket: EventEmitter): void => {
  // `removeAllListeners` would have V8 keep all of the socket's listeners as a dictionary, of 0.9 KB. They have no arguments.
  for (const listener of socket.listeners('end')) socket.off('end', listener as () => void)
}
