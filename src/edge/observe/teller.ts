/** Who hears the news: a mistake made by one of them is told, and hurts neither the others nor the request that told. */
import type { News } from '../../core/exchange.ts'

type Hears = (news: News) => void

/** `trouble`: somebody could not take the news. It must not throw. */
export const teller =
  (listeners: readonly Hears[], trouble: (error: unknown) => void): Hears =>
  (news) => {
    for (const hear of listeners) {
      try {
        hear(news)
      } catch (error) {
        trouble(error)
      }
    }
  }
