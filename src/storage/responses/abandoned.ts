/** Responses whose process ended while they were in progress: they are stored as ended, and never run again. */
import { isObject, parseJson } from '../../core/json.ts'
import type { StoredResponse } from '../../core/stored-response.ts'

/** The response object as failed. */
export const abandoned = (stored: StoredResponse): string =>
  restated(stored, {
    status: 'failed',
    error: {
      code: 'server_error',
      message: 'The gateway stopped while this response was in progress. Retry the request.',
    },
  })

/** The response object of one that was to be stopped. */
export const cancelled = (stored: StoredResponse): string => restated(stored, { status: 'cancelled' })

const restated = ({ response }: StoredResponse, members: object): string => {
  const before = parseJson(response)
  return JSON.stringify({ ...(isObject(before) && before), ...members })
}
