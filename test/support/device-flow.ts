/** A program that signs in by the device flow, and the browser of a person who confirms its code. */
import assert from 'node:assert/strict'
import { request } from 'node:http'
import { type Page, TestBrowser } from './identity-provider.ts'

// biome-ignore lint/suspicious/noExplicitAny: answers of every shape
export type Answer = { readonly status: number; readonly body: any; readonly headers: Headers }

/** Sends a form as a program does. */
export const sendForm = async (url: string, fields: Readonly<Record<string, string>>): Promise<Answer> => {
  const response = await fetch(url, { method: 'POST', body: new URLSearchParams(fields) })
  const text = await response.text()
  return { status: response.status, body: text.startsWith('{') ? JSON.parse(text) : text, headers: response.headers }
}

/** Begins at the gateway at `url`. */
export const beginDevice = async (url: string): Promise<Answer['body']> => {
  const { status, body } = await sendForm(`${url}/oauth/device_authorization`, { surface: 'test_program' })
  assert.equal(status, 200, JSON.stringify(body))
  return body
}

export const pollDevice = (url: string, code: string): Promise<Answer> =>
  sendForm(`${url}/oauth/token`, { grant_type: 'urn:ietf:params:oauth:grant-type:device_code', device_code: code })

export const refreshTokens = (url: string, token: string): Promise<Answer> =>
  sendForm(`${url}/oauth/token`, { grant_type: 'refresh_token', refresh_token: token })

/** Submits the form of a page as a browser does; `headers` replace those that it sends. */
export const submit = (
  browser: TestBrowser,
  url: string,
  fields: Readonly<Record<string, string>>,
  headers: Readonly<Record<string, string>> = {},
): Promise<Page> =>
  new Promise((resolve, reject) => {
    const sent = request(
      url,
      {
        method: 'POST',
        agent: false,
        headers: {
          'content-type': 'application/x-www-form-urlencoded',
          'sec-fetch-site': 'same-origin',
          'sec-fetch-mode': 'navigate',
          'sec-fetch-dest': 'document',
          origin: new URL(url).origin,
          cookie: browser.header(url),
          ...headers,
        },
      },
      (response) => {
        let text = ''
        response.setEncoding('utf8').on('data', (part: string) => {
          text += part
        })
        response.on('end', () => {
          browser.keep(url, response.headers['set-cookie'] ?? [])
          resolve({ url, status: response.statusCode ?? 0, text, headers: response.headers })
        })
      },
    ).on('error', reject)
    sent.end(new URLSearchParams(fields).toString())
  })

/** Types a code and signs in at the issuer. Returns the page that asks for the decision. */
export const confirmCode = async (url: string, code: string, provider = 'corp', browser = new TestBrowser()) => {
  const typed = await submit(browser, `${url}/device`, { user_code: code })
  assert.equal(typed.status, 200, typed.text)
  const page = await browser.open(`${url}/admin/api/v1/login?provider=${provider}&return=/device`)
  return { browser, page, confirm: /name="confirm" value="([^"]+)"/.exec(page.text)?.[1] ?? '' }
}

/** Signs a program in. Returns its tokens. */
export const signInProgram = async (url: string): Promise<Answer['body']> => {
  const { device_code, user_code } = await beginDevice(url)
  const { browser, confirm } = await confirmCode(url, user_code)
  const { status, text } = await submit(browser, `${url}/device`, { confirm, decision: 'approve' })
  assert.equal(status, 200, text)
  const { status: given, body } = await pollDevice(url, device_code)
  assert.equal(given, 200, JSON.stringify(body))
  return body
}
