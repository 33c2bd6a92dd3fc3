/** Sign-ins of programs by the device flow. */
import { z } from 'zod'
import { time } from '../../records/entities/shown.ts'
import { deletedAs, listOf } from './fields.ts'

export const SIGN_IN = z
  .strictObject({
    id: z.string(),
    object: z.literal('sign_in'),
    person: z.string().describe('ID of the person'),
    email: z.string().nullable(),
    name: z.string().nullable().describe('Name of the person'),
    client: z.string().describe('Name that the program states of itself'),
    address: z.string().describe('Address from which the program asked for its code'),
    created_at: time,
    used_at: time.describe('The last refresh; an access token is valid for an hour after it'),
    ends_at: time.describe('End without another refresh'),
  })
  .meta({ id: 'SignIn' })

export const SIGN_INS = listOf(SIGN_IN)

export const ENDED_SIGN_IN = deletedAs('sign_in')
