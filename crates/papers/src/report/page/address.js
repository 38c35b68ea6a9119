// The state of the page in its address (`#key=value&…`), so that a link or a reload restores it.

const address = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");

// Sets the values of a key; without values, removes the key.
const remember = (key, ...values) => {
  address.delete(key);
  for (const value of values) address.append(key, value);
  const state = address.toString();
  history.replaceState(null, "", location.href.split("#")[0] + (state && `#${state}`));
};

// Goes to a section without losing the state.
const goTo = (section) => {
  document.getElementById(section)?.scrollIntoView();
  remember("section", section);
};

// A changed address, such as a pasted link, is another state of the page.
addEventListener("hashchange", () => location.reload());
