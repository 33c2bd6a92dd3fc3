/** Reason phrases of RFC 9110 and RFC 6585; other statuses have none. */
const REASONS: { readonly [status: number]: string } = {
  200: 'OK',
  201: 'Created',
  202: 'Accepted',
  204: 'No Content',
  206: 'Partial Content',
  302: 'Found',
  304: 'Not Modified',
  400: 'Bad Request',
  401: 'Unauthorized',
  402: 'Payment Required',
  403: 'Forbidden',
  404: 'Not Found',
  405: 'Method Not Allowed',
  406: 'Not Acceptable',
  408: 'Request Timeout',
  409: 'Conflict',
  410: 'Gone',
  412: 'Precondition Failed',
  413: 'Content Too Large',
  414: 'URI Too Long',
  415: 'Unsupported Media Type',
  417: 'Expectation Failed',
  422: 'Unprocessable Content',
  424: 'Failed Dependency',
  426: 'Upgrade Required',
  429: 'Too Many Requests',
  431: 'Request Header Fields Too Large',
  500: 'Internal Server Error',
  501: 'Not Implemented',
  502: 'Bad Gateway',
  503: 'Service Unavailable',
  504: 'Gateway Timeout',
}

const lines = new Map<number, string>()

/** The status line with its line end. Throws on a status outside 200 to 599. */
export const statusLine = (status: number): string => {
  const known = lines.get(status)
  if (known !== undefined) return known
  if (!Number.isInteger(status) || status < 200 || status > 599)
    throw new Error(`Invalid HTTP status ${status}; it must be 200 to 599.`)
  const line = `HTTP/1.1 ${status} ${REASONS[status] ?? ''}\r\n`
  lines.set(status, line)
  return line
}
