# SPDX-License-Identifier: Apache-2.0
# For tests/windows/run.sh, after service.sh: the life of the installer under Wine's Windows Installer.
programs="$WINEPREFIX/drive_c/Program Files/NdBroker"
module="$WINEPREFIX/drive_c/Program Files/WindowsPowerShell/Modules/NdBroker"
version=$(sed -n 's/^project(ndbroker VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
newer=${version%.*}.$((${version##*.} + 1))

# A silent run of the installer; its own log stays in the build folder.
installer() {
  local status=0
  wine msiexec "$@" /qn /l 'C:\msi.txt' || status=$?
  cp "$WINEPREFIX/drive_c/msi.txt" "$build/msi-${1#/}.txt" 2> /dev/null || true
  return "$status"
}
version_is() { wine reg query 'HKLM\Software\Microsoft\Windows\CurrentVersion\Uninstall' /s | tr -d '\r' | grep -q "DisplayVersion.* $1$"; }
# With a blank in its path the program must stand between quotation marks.
quoted() { wine reg query 'HKLM\SYSTEM\CurrentControlSet\Services\ndbrokerd' /v ImagePath | grep -q '"C:\\Program Files\\NdBroker\\ndbrokerd.exe" --service run'; }
nothing_is_left() { ! state_is . && ! registered && ! find "$programs" "$data" "$module" 2> /dev/null | grep .; }
# The installed ndctl and the installed service.
installed_ctl() { wine "$programs/ndctl.exe" "$@"; }
# Wine says that its catalogue took the entry and does not list it; ndctl notices. The DLL is the one beside ndctl.exe.
provider_is_noticed() { installed_ctl nd install 2>&1 | tee /dev/stderr | grep -q 'takes no entries'; }
break_installation() { service stop && wine sc delete ndbrokerd && rm "$programs/ndbrokernd.dll"; }
serves_at() {
  service stop && printf '[[adapter]]\nname = "soft0"\naddresses = ["%s"]\n' "$1" > "$data/ndbrokerd.toml" && service start
}
# Ports and connections survive an upgrade with the journal and its key.
same_key() { cmp "$data/reattach.key" "$build/reattach.key"; }
export -f installer version_is quoted nothing_is_left installed_ctl provider_is_noticed break_installation serves_at same_key
export programs module

installer_life() {
  deploy/windows/msi.sh "$version" "$WINEPREFIX/drive_c/ndbroker.msi" > "$build/msi.log" 2>&1
  deploy/windows/msi.sh "$newer" "$WINEPREFIX/drive_c/newer.msi" >> "$build/msi.log" 2>&1
  echo
  step installer-installs 0 bash -c 'installer /i "C:\ndbroker.msi" FIREWALL=1'
  step installer-service-runs 0 bash -c 'state_is RUNNING'
  step installer-version 0 bash -c "version_is $version"
  step installer-event-source 0 bash -c registered
  step installer-configuration-is-private 0 bash -c owner_only
  step installer-powershell-module 0 bash -c 'cmp deploy/windows/NdBroker/NdBroker.psd1 "$module/NdBroker.psd1" && [ -s "$module/NdBroker.psm1" ]'
  step installer-quotes-the-program 0 bash -c quoted
  broker_directory[service]='C:\ProgramData\NdBroker'
  broker_system[service]=windows
  step installer-new-configuration 0 bash -c 'serves_at 127.0.0.6'
  exchange installer-service-serves service service 127.0.0.6:7476
  step installer-ndctl-finds-the-service 0 bash -c 'installed_ctl status'
  step installer-ndctl-judges-the-service 0 bash -c 'installed_ctl doctor | tee /dev/stderr | grep "PASS .*the service ndbrokerd runs and starts"'
  step installer-ndctl-nd-install 0 bash -c provider_is_noticed
  step installer-ndctl-nd-install-without-a-dll 2 bash -c 'installed_ctl nd install "C:\none.dll"'
  step installer-ndctl-nd-remove 0 bash -c 'installed_ctl nd remove'
  step installer-broken-installation 0 bash -c break_installation
  step installer-broken-is-noticed 1 bash -c 'state_is .'
  step installer-repairs 0 bash -c 'installer /i "C:\ndbroker.msi" REINSTALL=ALL REINSTALLMODE=amus'
  step installer-repaired-service-runs 0 bash -c 'state_is RUNNING && [ -e "$programs/ndbrokernd.dll" ]'
  step installer-uninstalls 0 bash -c 'installer /x "C:\ndbroker.msi"'
  step installer-keeps-a-changed-configuration 0 bash -c '[ "$(ls "$data")" = ndbrokerd.toml ] && ! state_is .'
  rm -rf "$data"
  step installer-installs-again 0 bash -c 'installer /i "C:\ndbroker.msi"'
  cp "$data/reattach.key" "$build/reattach.key"
  step installer-upgrades 0 bash -c 'installer /i "C:\newer.msi"'
  step installer-newer-version 0 bash -c "version_is $newer"
  step installer-newer-service-runs 0 bash -c 'state_is RUNNING'
  step installer-upgrade-keeps-the-key 0 bash -c same_key
  step installer-uninstalls-the-newer 0 bash -c 'installer /x "C:\newer.msi"'
  step installer-leaves-nothing 0 bash -c nothing_is_left
  # Wine forgets the upgrade code of a product after an upgrade, so this is a product that was not upgraded. The
  # exit status of a process has eight bits of ERROR_INSTALL_FAILURE.
  step installer-installs-the-newer 0 bash -c 'installer /i "C:\newer.msi"'
  step installer-refuses-an-older-version $((1603 & 255)) bash -c 'installer /i "C:\ndbroker.msi"'
  step installer-newer-version-stays 0 bash -c "version_is $newer && ! version_is $version && state_is RUNNING"
  step installer-uninstalls-that-too 0 bash -c 'installer /x "C:\newer.msi"'
  step installer-leaves-nothing-again 0 bash -c nothing_is_left
  # Under Wine the entry cannot be made: ERROR_FUNCTION_FAILED, and everything is rolled back.
  step installer-with-provider-is-rolled-back $((1627 & 255)) bash -c 'installer /i "C:\ndbroker.msi" PROVIDER=1'
  step installer-leaves-nothing-after-a-rollback 0 bash -c nothing_is_left
}
