import type { EventEmitter } from 'node:events'

/**
 * Removes Node's own `end` listener from a socket whose owner handles the end itself. A second listener would make V8 keep
 * an array for the life of the connection.
 */
export const dropEndListeners = (socket: EventEmitter): void => {
  // `removeAllListeners` would turn all listeners of the socket into a dictionary, 0.9 KB. `end` listeners take no arguments.
  for (const listener of socket.listeners('end')) socket.off('end', listener as () => void)
}
