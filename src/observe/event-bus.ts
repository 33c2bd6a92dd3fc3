import type { GatewayEvent } from '../core/trace.ts'

type Listener = (event: GatewayEvent) => void

/**
 * Emits each event to every listener. An exception thrown by one listener goes to `onError`, which must not throw; it
 * affects neither the other listeners nor the request that emitted the event.
 */
export const eventBus =
  (listeners: readonly Listener[], onError: (error: unknown) => void): Listener =>
  (event) => {
    for (const listener of listeners) {
      try {
        listener(event)
      } catch (error) {
        onError(error)
      }
    }
  }
