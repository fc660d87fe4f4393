# Writes a description of two computers of each device that kerfc knows.
set -e
names=$(kerfc --new-cluster --device=none --per-node=1 --nodes=1 2>&1 | sed "s/.*none': //; s/;.*//; s/,//g")
[ $(echo $names | wc -w) -gt 10 ]
for name in $names; do
  case $name in
    tpu-v4) per_node=3072 ;;
    *) per_node=16 ;;
  esac
  kerfc --new-cluster --device=$name --per-node=$per_node --nodes=2 --nic=400GbE > /dev/null
done
