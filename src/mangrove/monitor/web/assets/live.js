// One WebSocket for what a page shows; it comes back by itself when the monitor does.
export function live(page, subject, show, away) {
  let pause = 500;
  let socket = null;
  let ended = false;
  const open = () => {
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/live?page=${page}&subject=${encodeURIComponent(subject)}`);
    socket.onmessage = (event) => {
      pause = 500;
      show(JSON.parse(event.data));
    };
    socket.onclose = (event) => {
      if (ended) return;
      if (event.code !== 1000) away(event.reason || "the monitor does not answer; trying again …");
      setTimeout(open, pause);
      pause = Math.min(2 * pause, 8000);
    };
  };
  open();
  return () => {
    ended = true;
    socket.close();
  };
}

export async function ask(path, parameters) {
  const answer = await fetch(`/data/${path}?${new URLSearchParams(parameters)}`);
  return answer.ok ? answer.json() : null;
}
